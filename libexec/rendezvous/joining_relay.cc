#include "libexec/rendezvous/joining_relay.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/file_descriptor.h"
#include "base/route.h"
#include "base/text/address_text.h"
#include "base/text/duration_text.h"
#include "libexec/rendezvous/lines/take_text.h"
#include "libexec/rendezvous/store/store_word.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;
using Event = ConnectionEvents::Event;

// One after the other: a second connection would take this node's name from the first.
constexpr milliseconds kTryEvery{1000};
// A name may not resolve at first, and its addresses may change.
constexpr milliseconds kLookUpEvery{5000}, kLookUpUnknownEvery{1000};
// A host that has closed the connection, and refuses another after so long, has no launcher any more.
constexpr milliseconds kTimeToBeTaken{1000}, kTimeToRefuse{500};
constexpr milliseconds kTimeToDeliver{3000};      // at the end
constexpr milliseconds kTimeToAnswerAtAll{5000};  // until a silence is logged
constexpr milliseconds kTimeToAnswer{200};        // a heartbeat
constexpr milliseconds kConnectAgainAfter{500};

/// Does the host of `address`, in digits, answer that nothing listens at `port`?
bool refuses(const std::string& address, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  const FileDescriptor probe(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = ::connect(probe.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  ::freeaddrinfo(found);
  if (error != EINPROGRESS) return error == ECONNREFUSED;
  pollfd connected = {probe.get(), POLLOUT, 0};
  socklen_t size = sizeof error;
  return ::poll(&connected, 1, static_cast<int>(kTimeToRefuse.count())) == 1 &&
         ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ECONNREFUSED;
}

}  // namespace

JoiningRelay::JoiningRelay(const RelayPlace& place, const RunKeys& keys, zmq::context_t& context,
                           LauncherSocket& launcher, bool taken_here)
    : place_(place),
      keys_(keys),
      context_(context),
      launcher_(launcher),
      taken_here_(taken_here),
      patience_(place.node_timeout) {}

JoiningRelay::Attempt::Attempt(const std::string& to, const RelayPlace& place, const RunKeys& keys,
                               zmq::context_t& context)
    : address(to),
      socket(joining_socket(context, keys, place.node)),
      events(context, socket),
      endpoint_("tcp://" + host_and_port(address, place.port)) {
  socket.connect(endpoint_);
}

void JoiningRelay::Attempt::connect_again() {
  socket.disconnect(endpoint_);
  socket.connect(endpoint_);
}

void JoiningRelay::try_next_address(Clock::time_point now) {
  if (std::any_of(attempts_.begin(), attempts_.end(), [](const auto& each) { return each->is_connected; }))
    return;
  if (next_ >= addresses_.size()) {
    next_ = 0;
    if (now - looked_up_ >= (addresses_.empty() ? kLookUpUnknownEvery : kLookUpEvery)) {
      looked_up_ = now;
      addresses_ = addresses_of(place_.address, why_no_address_);
    }
  }
  while (next_ < addresses_.size()) {
    const std::string& address = addresses_[next_++];
    const bool is_on_trial = std::any_of(attempts_.begin(), attempts_.end(),
                                         [&](const auto& attempt) { return attempt->address == address; });
    if (is_on_trial) continue;
    attempts_.push_back(std::make_unique<Attempt>(address, place_, keys_, context_));
    return;
  }
}

JoiningRelay::Fate JoiningRelay::fate_of(Attempt& attempt) {
  while (const auto event = attempt.events.next()) {
    if (event == Event::joined) return Fate::joined;
    if (event == Event::connected) has_connected_ = attempt.is_connected = true;
    // libzmq gives up, without another event, where something answers in no version of its protocol.
    if (event != Event::refused && event != Event::broken_off && event != Event::disconnected) continue;
    if (std::exchange(has_warned_, true)) return Fate::failed;
    launcher_.tell("warning", "what listens at " + host_and_port(attempt.address, place_.port) +
                                  " does not accept this node, or is not a hookline launcher; trying for " +
                                  seconds_text(place_.join_timeout) +
                                  ". The launcher there must have the same main_address and "
                                  "main_port, and " +
                                  place_.ticket);
    return Fate::failed;
  }
  return Fate::open;
}

bool JoiningRelay::take_joined() {
  for (auto& attempt : attempts_) {
    const Fate fate = fate_of(*attempt);
    if (fate == Fate::failed) attempt.reset();  // libzmq would not try it again
    if (fate != Fate::joined) continue;
    joined_ = std::move(attempt);
    attempts_.clear();
    return true;
  }
  std::erase(attempts_, nullptr);
  return false;
}

bool JoiningRelay::join() {
  const auto start = Clock::now();
  auto tried = Clock::time_point();
  while (true) {
    const auto now = Clock::now();
    if (now - tried >= kTryEvery) {
      tried = now;
      try_next_address(now);
    }
    if (take_joined()) break;
    if (!has_connected_ && now - start > kTimeToAnswerAtAll && !std::exchange(has_told_of_silence_, true))
      launcher_.tell("warning", "no node answers at " + place_.address_and_port() + " yet; trying for " +
                                    seconds_text(place_.join_timeout));
    const auto left = place_.join_timeout - (now - start);
    if (left <= left.zero()) {
      launcher_.tell("gone", why_unreachable());
      return false;
    }
    std::vector<zmq::pollitem_t> items = {item_of(launcher_, true)};
    for (const auto& attempt : attempts_)
      items.push_back({attempt->events.socket().handle(), 0, ZMQ_POLLIN, 0});
    wait_for_any(items, std::min(std::chrono::ceil<milliseconds>(left), milliseconds(100)));
    if (!read_launcher()) return false;
  }
  answered_ = Clock::now();
  launcher_.tell("serves", "no");
  if (is_in_digits(joined_->address)) {  // else it is valid on one link alone
    const StoreWord word{StoreWord::Kind::reached, 0, joined_->address};
    lines_.send(std::make_shared<const std::string>(to_line(word)));
  }
  resume();
  return true;
}

bool JoiningRelay::read_launcher() {
  launcher_.flush();
  std::vector<std::string> lines;
  const bool is_open = launcher_.read(lines);
  for (const std::string& line : lines) {
    if (line.starts_with("up ")) send_up(line.substr(3));
    if (line.starts_with("store ")) open_store(line.substr(6));
  }
  return is_open;
}

void JoiningRelay::send_up(const std::string& line) {
  const std::string frame = lines_.send(std::make_shared<const std::string>(line));
  if (joined_) send(frame);  // else resume() does
}

void JoiningRelay::open_store(const std::string& text) {
  std::string_view rest = text;
  round_ = take_number<int>(rest).value_or(0);
  launcher_.tell("store", std::to_string(round_) + " " + ranks_.listen_here() + " 0 " +
                              (joined_ ? joined_->address : place_.address));
}

void JoiningRelay::serve_ranks() {
  for (RankConnections::Event& event : ranks_.events()) {
    StoreWord word{StoreWord::Kind::end, event.connection};
    if (event.kind == RankConnections::Event::Kind::opened) {
      word.kind = StoreWord::Kind::open;
      word.round = round_;
    } else if (event.kind == RankConnections::Event::Kind::data) {
      word.kind = StoreWord::Kind::data;
      word.bytes = std::move(event.bytes);
    }
    send_up(to_line(word));
  }
}

void JoiningRelay::take(const std::string& line) {
  const auto word = store_word_of(line);
  if (!word) return launcher_.tell("down", line);
  if (word->kind == StoreWord::Kind::data)
    ranks_.send(word->connection, word->bytes);
  else
    ranks_.end(word->connection);
}

void JoiningRelay::send(const std::string& frame) {
  joined_->socket.send(zmq::buffer(frame), zmq::send_flags::dontwait);
}

void JoiningRelay::resume() {
  send(lines_.count(LineStream::Kind::resume));
  for (const std::string& frame : lines_.unreceived()) send(frame);
}

std::optional<std::string> JoiningRelay::look_at_connection(Clock::time_point now) {
  while (const auto event = joined_->events.next()) {
    if (event == Event::joined) {
      cut_since_.reset();
      resume();
    } else if (event == Event::disconnected && !cut_since_) {
      cut_since_ = now;
    } else if (event == Event::refused) {
      return "something else listens there now";
    }
  }
  if (!cut_since_ || now - *cut_since_ < kTimeToBeTaken) return std::nullopt;
  if (refuses(joined_->address, place_.port)) return "it has closed the connection, and takes no other";
  cut_since_ = now;  // the host can't be reached, or is about to accept a connection: check again later
  return std::nullopt;
}

void JoiningRelay::connect_again_if_silent(Clock::time_point now) {
  if (now - answered_ <=
      std::max<Clock::duration>(place_.node_timeout / 2, beat_of(place_.node_timeout) + 2 * kTimeToAnswer)) {
    connect_again_every_ = kConnectAgainAfter;
    connect_again_at_ = now;
  } else if (now >= connect_again_at_) {
    joined_->connect_again();
    if (!cut_since_) cut_since_ = now;
    connect_again_at_ = now + connect_again_every_;
    connect_again_every_ *= 2;  // the serving relay may be busy with many other nodes
  }
}

std::optional<std::string> JoiningRelay::take_frames(Clock::time_point now) {
  while (const auto bytes = receive(joined_->socket)) {
    const auto frame = LineStream::parse(*bytes);
    if (!frame) continue;  // no node of this version sends it
    answered_ = now;
    patience_.hear(now);
    if (frame->kind == LineStream::Kind::line) {
      owes_count_ = true;
      if (lines_.takes(*frame) && !frame->line.empty()) take(frame->line);
    } else if (!lines_.heard(frame->received)) {
      return "another launcher has taken its place";
    }
  }
  return std::nullopt;
}

void JoiningRelay::run() {
  if (!join()) return;
  const milliseconds beat = beat_of(place_.node_timeout);
  auto sent = Clock::time_point(), looked = Clock::now();
  std::optional<Clock::time_point> closing;
  while (true) {
    auto now = Clock::now();
    if (now - sent >= beat || std::exchange(owes_count_, false)) {
      sent = now;
      send(lines_.count(LineStream::Kind::heartbeat));
    }
    if (closing && (lines_.is_delivered() || now - *closing > kTimeToDeliver)) return;
    std::vector<zmq::pollitem_t> items = {{joined_->socket.handle(), 0, ZMQ_POLLIN, 0},
                                          {joined_->events.socket().handle(), 0, ZMQ_POLLIN, 0},
                                          {nullptr, ranks_.descriptor(), ZMQ_POLLIN, 0}};
    if (const auto item = item_of(launcher_, !closing); item.events != 0) items.push_back(item);
    const bool is_silent = now - answered_ > beat + kTimeToAnswer;
    const milliseconds patience = cut_since_ || is_silent ? std::min(beat, kTimeToBeTaken / 2) : beat;
    wait_for_any(items,
                 std::clamp(std::chrono::ceil<milliseconds>(beat - (now - sent)), milliseconds(1), patience));
    now = Clock::now();
    if (now - looked > place_.node_timeout / 2) {  // this process was stopped meanwhile
      answered_ = now;
      patience_.begin_anew();
    }
    looked = now;
    auto why = take_frames(now);
    serve_ranks();
    if (!read_launcher() && !closing) closing = now;
    if (!why) why = look_at_connection(now);
    if (why) {
      launcher_.tell("gone", *why);
      return;
    }
    connect_again_if_silent(now);
    if (now - answered_ > patience_.limit()) {
      launcher_.tell("gone", "it has not answered for " + seconds_text(now - answered_));
      return;
    }
  }
}

std::string JoiningRelay::why_unreachable() const {
  const std::string here = place_.address_and_port();
  if (taken_here_)
    return "the port " + std::to_string(place_.port) +
           " of this host is taken, by a launcher that does not accept this node, or by another program: "
           "give "
           "both launchers the same main_address, written alike, and main_port, and " +
           place_.ticket +
           "; if it is another program, set [rendezvous] main_port to a free one, on every node";
  if (has_connected_)
    return "what listens at " + here +
           " does not accept this node, or is not a hookline launcher: see that main_address and main_port "
           "are the same on every node, and that the launcher there has " +
           place_.ticket;
  return "no node answers at " + here +
         (addresses_.empty() ? " ('" + place_.address + "' is not known here: " + why_no_address_ + ")"
                             : "") +
         ": see that 'hookline launch' runs there, and that main_address and main_port are the same on every "
         "node";
}

}  // namespace hookline
