#include "libexec/rendezvous/serving_relay.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/address_text.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{100};
// While nothing but heartbeats has come for so long, those of many nodes are taken together.
constexpr milliseconds kQuietAfter{1000}, kNap{20};
constexpr milliseconds kTimeToHear{3000};  // at the end: for the other nodes to receive all lines

/// The run's address, if that is in digits. Empty, for all addresses of this host, if it is a name: the
/// others may know this host by another address than it does.
std::string address_to_bind(const RelayPlace& place) {
  return is_in_digits(place.address) ? place.address : "";
}

std::string endpoint_of(const RelayPlace& place) {
  const std::string address = address_to_bind(place);
  return "tcp://" + host_and_port(address.empty() ? "*" : address, place.port);
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
      lives_(place.node_timeout),
      store_(launcher, place.address,
             {.send =
                  [this](const std::string& node, const StoreWord& word) {
                    send(node, lines_[node].send(std::make_shared<const std::string>(to_line(word))));
                  },
              .is_member =
                  [this](const std::string& address) {
                    return std::any_of(hosts_.begin(), hosts_.end(),
                                       [&](const auto& host) { return host.second.contains(address); });
                  }}) {}

void ServingRelay::run() {
  launcher_.tell("serves", "yes");
  std::optional<Clock::time_point> closing;
  auto looked = Clock::time_point(), busy = Clock::now();
  while (true) {
    std::vector<zmq::pollitem_t> items = {
        {socket_.handle(), 0, ZMQ_POLLIN, 0},
        {access_.socket().handle(), 0, ZMQ_POLLIN, 0},
        {events_.socket().handle(), 0, ZMQ_POLLIN, 0},
        {nullptr, store_.descriptor(), ZMQ_POLLIN, 0},
    };
    constexpr std::size_t kNodes = 0, kAccess = 1, kEvents = 2, kRanks = 3, kLauncher = 4;
    if (const auto item = item_of(launcher_, !closing); item.events != 0) items.push_back(item);
    wait_for_any(items, kLookEvery);
    // Look only at sockets that have news: a look at one costs as much as handling a node's heartbeat.
    const auto has_news = [&items](std::size_t of) { return of < items.size() && items[of].revents != 0; };
    if (has_news(kEvents)) look_at_connections();  // at once: a stranger's is soon over
    const bool is_quiet = Clock::now() - busy > kQuietAfter;
    if (is_quiet && has_news(kNodes)) std::this_thread::sleep_for(kNap);
    const auto now = Clock::now();
    if (has_news(kAccess))
      for (const std::string& refused : access_.answer()) turn_away(refused);
    if (has_news(kNodes)) {
      while (const auto received = receive_from_any(socket_))
        if (!take(*received, now)) busy = now;
    }
    if (has_news(kRanks)) {
      store_.serve_ranks();
      busy = now;
    }
    std::vector<std::string> lines;
    if (has_news(kLauncher)) {
      busy = now;
      launcher_.flush();
      if (!closing && !launcher_.read(lines)) closing = now;
    }
    for (const std::string& line : lines) {
      if (line.starts_with("down ")) pass_on(line.substr(5));
      if (line.starts_with("store ")) store_.open(line.substr(6));
    }
    const bool is_time_to_look = now - looked >= kLookEvery;
    if (is_time_to_look) owed_answers_.merge(std::exchange(owed_later_, {}));
    for (const std::string& name : std::exchange(owed_answers_, {}))
      send(name, lines_[name].count(LineStream::Kind::answer));
    if (is_time_to_look) {
      looked = now;
      for (const std::string& lost : lives_.take_lost(now)) {
        hosts_.erase(lost);
        lines_[lost].forget();  // what was meant for it is out of date when it comes back
        store_.end_all_of(lost);
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

bool ServingRelay::take(const Received& received, Clock::time_point now) {
  const std::string& node = received.node;
  const auto frame = LineStream::parse(received.frame);
  if (!frame || !is_name(node)) return true;  // no node of this version sends it
  hosts_[node].insert(received.address);
  if (lives_.heard(node, now)) launcher_.tell("back", node);
  LineStream& lines = lines_[node];
  if (frame->kind == LineStream::Kind::heartbeat) {
    // Answers to heartbeats go out together: each wake-up of libzmq's thread costs as much as all of them.
    owed_later_.insert(node);
    lines.heard(frame->received);
    return true;
  }
  owed_answers_.insert(node);
  if (frame->kind == LineStream::Kind::line) {
    take_line(received, *frame, lines, now);
    return false;
  }
  lines.heard(frame->received);
  if (frame->kind != LineStream::Kind::resume) return false;
  for (const std::string& again : lines.unreceived()) send(node, again);
  return false;
}

void ServingRelay::take_line(const Received& received, const LineStream::Frame& frame, LineStream& lines,
                             Clock::time_point now) {
  const std::string& node = received.node;
  if (!lines.takes(frame) || frame.line.empty()) return;
  if (const auto word = store_word_of(frame.line)) return store_.take(node, *word);
  lives_.took(node, frame.line, now);
  launcher_.tell("up", node + " " + received.address + " " + frame.line);
}

void ServingRelay::look_at_connections() {
  while (const auto event = events_.next())
    if (event == ConnectionEvents::Event::refused) turn_away(events_.address());
}

void ServingRelay::turn_away(const std::string& address) {
  constexpr std::size_t kMostKept = 1000;
  if (strangers_.size() < kMostKept && strangers_.insert(address).second) launcher_.tell("stranger", address);
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
