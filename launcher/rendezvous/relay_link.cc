#include "launcher/rendezvous/relay_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/process/child.h"
#include "launcher/process/own_environment.h"

namespace hookline {
namespace {

using Kind = LinkWord::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 10> kKinds{{{"serves", Kind::serves},
                                                                    {"up", Kind::up},
                                                                    {"down", Kind::down},
                                                                    {"lost", Kind::lost},
                                                                    {"back", Kind::back},
                                                                    {"store", Kind::store},
                                                                    {"stranger", Kind::stranger},
                                                                    {"warning", Kind::warning},
                                                                    {"gone", Kind::gone},
                                                                    {"unusable", Kind::unusable}}};

std::string text_of(const MeetingPlace& place, int descriptor) {
  return nlohmann::json{{"alone", place.alone},
                        {"serves", place.serves},
                        {"may_join", place.may_join},
                        {"address", place.address},
                        {"name", place.name},
                        {"port", place.port},
                        {"node", place.node},
                        {"join_seconds", place.join_timeout.count()},
                        {"node_timeout_seconds", place.node_timeout.count()},
                        {"descriptor", descriptor},
                        {"ticket", place.secret.ticket()}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

RelayLink::RelayLink(const std::filesystem::path& program, const MeetingPlace& place, const Signals& signals)
    : program_(program.string()), is_alone_(place.alone) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor theirs(ends[1]);
  ChildSpec child;
  child.program = program_;
  child.arguments = {program.filename().string(), text_of(place, theirs.get())};
  child.environment = own_environment();
  child.inherited = {theirs.get()};
  child.before_exec = [&signals] { signals.restore(); };
  spawn(child);
  // Not on its command line, which every user of the host can read.
  if (!place.alone) send("secret " + secret_text(place.secret));
}

void RelayLink::meet(const MeetingPlace& place) { send("meet " + text_of(place, /*descriptor=*/-1)); }

void RelayLink::send(const std::string& line) {
  if (ended_) return;
  const std::string whole = line + "\n";
  for (std::size_t sent = 0; sent < whole.size();) {
    const ssize_t count = ::send(socket_.get(), whole.data() + sent, whole.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // the next read reports that it ended
    sent += static_cast<std::size_t>(count);
  }
}

void RelayLink::take(const std::string& line) {
  const std::size_t end = line.find(' ');
  if (end == std::string::npos) return;
  const std::string_view word = std::string_view(line).substr(0, end);
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& kind) { return kind.first == word; });
  if (found == kKinds.end()) return;
  LinkWord received{found->second, line.substr(end + 1)};
  if (received.kind == Kind::lost || received.kind == Kind::back) {
    received.node = std::exchange(received.text, "");
  } else if (received.kind == Kind::up) {
    for (std::string* const part : {&received.node, &received.address}) {
      const std::size_t length = received.text.find(' ');
      if (length == std::string::npos) return;
      *part = received.text.substr(0, length);
      received.text.erase(0, length + 1);
    }
  }
  received_.push_back(std::move(received));
}

std::optional<LinkWord> RelayLink::next() {
  while (true) {
    if (!received_.empty()) {
      const LinkWord word = std::move(received_.front());
      received_.pop_front();
      return word;
    }
    if (ended_) {
      if (std::exchange(told_of_end_, true)) return std::nullopt;
      return LinkWord{Kind::broken,
                      "'" + program_ + "', " +
                          (is_alone_ ? "which serves the ranks' store" : "which talks to the other nodes") +
                          ", has ended"};
    }
    char block[4096];
    const ssize_t count = ::recv(socket_.get(), block, sizeof block, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return std::nullopt;
    if (count <= 0) {
      ended_ = true;
      socket_.reset();
    } else {
      lines_.feed({block, static_cast<std::size_t>(count)},
                  [this](const std::string& line, std::uint64_t) { take(line); });
    }
  }
}

void RelayLink::finish(std::chrono::milliseconds patience) {
  if (!ended_) ::shutdown(socket_.get(), SHUT_WR);
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (!ended_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(give_up - std::chrono::steady_clock::now()).count();
    if (left <= 0) return;
    pollfd descriptor = {socket_.get(), POLLIN, 0};
    poll(&descriptor, 1, static_cast<int>(left));
    while (next()) {
    }
  }
}

}  // namespace hookline
