#include "libexec/rendezvous/serving_relay.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>
#include <vector>

namespace hookline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{100};
constexpr milliseconds kTimeToHear{3000};  // at the end: for the other nodes to receive all lines

/// At an address in digits only there, and at a name on all interfaces: a host may know itself by another
/// address than the others do.
std::string endpoint_of(const RelayPlace& place) {
  const bool is_digits = is_address(place.address, AF_INET) || is_address(place.address, AF_INET6);
  return "tcp://" + host_and_port(is_digits ? place.address : "*", place.port);
}

/// Is it a node's name, as launchers choose them?
bool is_name(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '-'; });
}

}  // namespace

ServingRelay::ServingRelay(const RelayPlace& place, const RunKeys& keys, zmq::context_t& context,
                           LauncherSocket& launcher)
    : place_(place),
      launcher_(launcher),
      access_(context, keys),
      socket_(serving_socket(context, keys, endpoint_of(place))),
      events_(context, socket_),
      lives_(place.node_timeout) {}

void ServingRelay::run() {
  launcher_.tell("serves", "yes");
  std::optional<Clock::time_point> closing;
  auto looked = Clock::time_point();
  while (true) {
    std::vector<zmq::pollitem_t> items = {
        {socket_.handle(), 0, ZMQ_POLLIN, 0},
        {access_.socket().handle(), 0, ZMQ_POLLIN, 0},
        {events_.socket().handle(), 0, ZMQ_POLLIN, 0},
    };
    if (const auto item = item_of(launcher_, !closing); item.events != 0) items.push_back(item);
    wait_for_any(items, kLookEvery);
    const auto now = Clock::now();
    access_.answer();
    look_at_connections();
    std::string node;
    while (const auto frame = receive(socket_, &node)) take(node, *frame, now);
    launcher_.flush();
    std::vector<std::string> lines;
    if (!closing && !launcher_.read(lines)) closing = now;
    for (const std::string& line : lines) {
      if (line.starts_with("down ")) pass_on(line.substr(5));
    }
    for (const std::string& name : std::exchange(owed_answers_, {}))
      send(name, lines_[name].count(LineStream::Kind::answer));
    if (now - looked >= kLookEvery) {
      looked = now;
      for (const std::string& lost : lives_.take_lost(now)) {
        lines_[lost].forget();  // what was meant for it is out of date when it comes back
        launcher_.tell("lost", lost);
      }
    }
    if (closing && (now - *closing > kTimeToHear || all_have_everything())) return;
  }
}

void ServingRelay::pass_on(const std::string& text) {
  const std::size_t end = text.find(' ');
  if (end == std::string::npos) return;
  const std::string to = text.substr(0, end);
  const auto line = std::make_shared<const std::string>(text.substr(end + 1));
  if (to == "*") {
    for (const std::string& node : lives_.watched()) send(node, lines_[node].send(line));
  } else if (const auto lines = lines_.find(to); lines != lines_.end()) {
    send(to, lines->second.send(line));
  }
}

void ServingRelay::take(const std::string& node, const std::string& bytes, Clock::time_point now) {
  const auto frame = LineStream::parse(bytes);
  if (!frame || !is_name(node)) return;  // no node of this version sends it
  if (lives_.heard(node, now)) launcher_.tell("back", node);
  LineStream& lines = lines_[node];
  owed_answers_.insert(node);
  if (frame->kind == LineStream::Kind::line) {
    if (!lines.takes(*frame) || frame->line.empty()) return;
    lives_.took(node, frame->line, now);
    launcher_.tell("up", node + " " + frame->line);
    return;
  }
  lines.heard(frame->received);
  if (frame->kind != LineStream::Kind::resume) return;
  for (const std::string& again : lines.unreceived()) send(node, again);
}

void ServingRelay::look_at_connections() {
  while (const auto event = events_.next()) {
    if (event != ConnectionEvents::Event::refused || std::exchange(has_warned_of_strangers_, true)) continue;
    launcher_.tell("warning", "a connection to " + place_.address_and_port() +
                                  " was refused, as all further such are: a node needs " + place_.ticket);
  }
}

bool ServingRelay::all_have_everything() {
  for (const std::string& node : lives_.watched()) {
    if (!lines_[node].is_delivered()) return false;
  }
  return true;
}

void ServingRelay::send(const std::string& node, const std::string& frame) {
  socket_.send(zmq::buffer(node), zmq::send_flags::sndmore);
  socket_.send(zmq::buffer(frame), zmq::send_flags::none);
}

}  // namespace hookline
