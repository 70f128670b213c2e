#include "launcher/rendezvous/store_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "launcher/process/child.h"
#include "launcher/process/own_environment.h"

namespace hookline {
namespace {

using Kind = LinkWord::Kind;

constexpr std::array<std::pair<const char*, Kind>, 7> kKinds{{{"serves ", Kind::serves},
                                                              {"unreachable ", Kind::unreachable},
                                                              {"up ", Kind::up},
                                                              {"down ", Kind::down},
                                                              {"lost ", Kind::lost},
                                                              {"gone ", Kind::gone},
                                                              {"unusable ", Kind::unusable}}};

std::string text_of(const StorePlace& place, int descriptor) {
  return nlohmann::json{{"serves", place.serves},
                        {"may_join", place.may_join},
                        {"address", place.address},
                        {"port", place.port},
                        {"node", place.node},
                        {"join_seconds", place.join_timeout.count()},
                        {"node_timeout_seconds", place.node_timeout.count()},
                        {"descriptor", descriptor}}
      .dump();
}

}  // namespace

StoreLink::StoreLink(const std::filesystem::path& program, const StorePlace& place, const Signals& signals) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor theirs(ends[1]);
  ChildSpec child;
  child.program = program.string();
  child.arguments = {program.filename().string(), text_of(place, theirs.get())};
  child.environment = own_environment();
  child.inherited = {theirs.get()};
  child.before_exec = [&signals] { signals.restore(); };
  spawn(child);
}

void StoreLink::send(const std::string& line) {
  if (ended_) return;
  const std::string whole = line + "\n";
  for (std::size_t sent = 0; sent < whole.size();) {
    const ssize_t count = ::send(socket_.get(), whole.data() + sent, whole.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // the next read reports that it ended
    sent += static_cast<std::size_t>(count);
  }
}

void StoreLink::take(const std::string& line) {
  for (const auto& [prefix, kind] : kKinds)
    if (line.starts_with(prefix)) received_.push_back({kind, line.substr(std::string(prefix).size())});
}

std::optional<LinkWord> StoreLink::next() {
  while (true) {
    if (!received_.empty()) {
      const LinkWord word = std::move(received_.front());
      received_.pop_front();
      return word;
    }
    if (ended_) {
      if (std::exchange(told_of_end_, true)) return std::nullopt;
      return LinkWord{Kind::gone, "the process that talks to the nodes' store has ended"};
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

void StoreLink::finish(std::chrono::milliseconds patience) {
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
