#include "libexec/rendezvous/wire.h"

#include <poll.h>
#include <sys/socket.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text/address_text.h"
#include "launcher/rendezvous/messages.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kTimeToShakeHands{3'000};
constexpr std::chrono::milliseconds kTimeToConnect{3'000};  // then libzmq tries again
constexpr int kConnectionsWaiting = 4096;                   // to be accepted
constexpr std::int64_t kLongestFrame = static_cast<std::int64_t>(kLongestMessageBytes) + 64;
constexpr int kUnlimited = 0;  // LineStream's lines are kept anyway
const char* const kAccessCheckAt = "inproc://zeromq.zap.01";

zmq::const_buffer buffer_of(const std::array<std::uint8_t, 32>& key) {
  return zmq::buffer(key.data(), key.size());
}

zmq::socket_t socket_of(zmq::context_t& context, zmq::socket_type type, const KeyPair& own) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::handshake_ivl, static_cast<int>(kTimeToShakeHands.count()));
  socket.set(zmq::sockopt::maxmsgsize, kLongestFrame);
  socket.set(zmq::sockopt::sndhwm, kUnlimited);
  socket.set(zmq::sockopt::curve_secretkey, buffer_of(own.secret_key));
  return socket;
}

/// The next message of so many parts; does not wait. Others are dropped.
std::vector<zmq::message_t> receive_parts(zmq::socket_t& socket, std::size_t count) {
  while (true) {
    std::vector<zmq::message_t> parts;
    bool more = true;
    while (more) {
      zmq::message_t part;
      if (!socket.recv(part, zmq::recv_flags::dontwait)) return {};
      more = part.more();
      parts.push_back(std::move(part));
    }
    if (parts.size() == count) return parts;
  }
}

}  // namespace

zmq::socket_t serving_socket(zmq::context_t& context, const RunKeys& keys, const std::string& endpoint) {
  zmq::socket_t socket = socket_of(context, zmq::socket_type::router, keys.serving);
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::zap_domain, "hookline");
  socket.set(zmq::sockopt::backlog, kConnectionsWaiting);
  // A node that connects again comes before its old connection is known to be broken.
  socket.set(zmq::sockopt::router_handover, true);
  socket.bind(endpoint);
  return socket;
}

zmq::socket_t joining_socket(zmq::context_t& context, const RunKeys& keys, const std::string& node) {
  zmq::socket_t socket = socket_of(context, zmq::socket_type::dealer, keys.joining);
  socket.set(zmq::sockopt::curve_publickey, buffer_of(keys.joining.public_key));
  socket.set(zmq::sockopt::curve_serverkey, buffer_of(keys.serving.public_key));
  socket.set(zmq::sockopt::routing_id, node);
  socket.set(zmq::sockopt::connect_timeout, static_cast<int>(kTimeToConnect.count()));
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 2000);
  return socket;
}

AccessCheck::AccessCheck(zmq::context_t& context, const RunKeys& keys)
    : socket_(context, zmq::socket_type::rep),
      allowed_(keys.joining.public_key.begin(), keys.joining.public_key.end()) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(kAccessCheckAt);
}

std::vector<std::string> AccessCheck::answer() {
  std::vector<std::string> refused;
  while (true) {
    std::vector<std::string> asked;
    bool more = true;
    while (more) {
      zmq::message_t part;
      if (!socket_.recv(part, zmq::recv_flags::dontwait)) return refused;
      asked.push_back(part.to_string());
      more = part.more();
    }
    // Version, request, domain, address, identity, mechanism and the client's public key.
    const bool is_ours = asked.size() == 7 && asked[5] == "CURVE" && asked[6] == allowed_;
    if (!is_ours && asked.size() > 3) refused.push_back(without_ipv4_prefix(asked[3]));
    const std::string answer[] = {"1.0",
                                  asked.size() > 1 ? asked[1] : "",
                                  is_ours ? "200" : "400",
                                  is_ours ? "OK" : "no node of this run",
                                  "",
                                  ""};
    for (std::size_t i = 0; i < std::size(answer); ++i)
      socket_.send(zmq::buffer(answer[i]),
                   i + 1 < std::size(answer) ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

ConnectionEvents::ConnectionEvents(zmq::context_t& context, zmq::socket_t& watched)
    : watched_(watched.handle()), socket_(context, zmq::socket_type::pair) {
  static std::atomic<int> count{0};
  const std::string at = "inproc://events-" + std::to_string(count++);
  constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(watched_, at.c_str(), kEvents) != 0) throw zmq::error_t();
  socket_.set(zmq::sockopt::linger, 0);
  socket_.connect(at);
}

// Else libzmq's I/O thread would wait for somebody to read the next event.
ConnectionEvents::~ConnectionEvents() { zmq_socket_monitor(watched_, nullptr, 0); }

std::optional<ConnectionEvents::Raw> ConnectionEvents::read() {
  zmq::message_t event, endpoint;
  if (!socket_.recv(event, zmq::recv_flags::dontwait)) return std::nullopt;
  if (event.more()) static_cast<void>(socket_.recv(endpoint, zmq::recv_flags::dontwait));
  std::uint16_t kind = 0;
  std::int32_t value = 0;
  if (event.size() < sizeof kind + sizeof value) return Raw{};
  std::memcpy(&kind, event.data(), sizeof kind);
  std::memcpy(&value, static_cast<const char*>(event.data()) + sizeof kind, sizeof value);
  return Raw{kind, value};
}

void ConnectionEvents::ask_for_peer(int descriptor) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  std::string digits;
  if (::getpeername(descriptor, address, &size) == 0) digits = without_ipv4_prefix(digits_of(address, size));
  // libzmq reports the end of a connection before it closes the descriptor, which a later connection may
  // reuse. So if no end has been reported by now, getpeername's answer is about this connection.
  while (const auto later = read()) come_.push_back(*later);
  const bool was_over = std::any_of(come_.begin(), come_.end(), [&](const Raw& later) {
    return later.kind == ZMQ_EVENT_DISCONNECTED && later.value == descriptor;
  });
  peers_[descriptor] = was_over ? "" : digits;
}

std::optional<ConnectionEvents::Event> ConnectionEvents::next() {
  while (true) {
    std::optional<Raw> raw;
    if (come_.empty()) {
      raw = read();
    } else {
      raw = come_.front();
      come_.pop_front();
    }
    if (!raw) return std::nullopt;
    switch (raw->kind) {
      case ZMQ_EVENT_ACCEPTED:
        ask_for_peer(raw->value);
        break;
      case ZMQ_EVENT_CONNECTED:
        return Event::connected;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return Event::joined;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        if (!peers_.empty()) break;  // this side's AccessCheck has refused it
        address_.clear();
        return Event::refused;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        is_refusing_ = true;
        break;
      case ZMQ_EVENT_DISCONNECTED: {
        const auto peer = peers_.extract(raw->value);
        address_ = peer ? peer.mapped() : "";
        return std::exchange(is_refusing_, false) ? Event::refused : Event::disconnected;
      }
      default:
        return Event::broken_off;
    }
  }
}

zmq::pollitem_t item_of(const LauncherSocket& launcher, bool reads) {
  const bool writes = (launcher.events() & POLLOUT) != 0;
  return {nullptr, launcher.descriptor(),
          static_cast<short>((reads ? ZMQ_POLLIN : 0) | (writes ? ZMQ_POLLOUT : 0)), 0};
}

void wait_for_any(std::vector<zmq::pollitem_t>& items, std::chrono::milliseconds patience) {
  const int count =
      zmq_poll(items.data(), static_cast<int>(items.size()), static_cast<long>(patience.count()));
  if (count < 0 && zmq_errno() != EINTR) throw zmq::error_t();
}

std::optional<std::string> receive(zmq::socket_t& socket) {
  const auto parts = receive_parts(socket, 1);
  return parts.empty() ? std::nullopt : std::optional(parts[0].to_string());
}

std::optional<Received> receive_from_any(zmq::socket_t& socket) {
  auto parts = receive_parts(socket, 2);
  if (parts.empty()) return std::nullopt;
  return Received{parts[0].to_string(), without_ipv4_prefix(parts[1].gets("Peer-Address")),
                  parts[1].to_string()};
}

}  // namespace hookline
