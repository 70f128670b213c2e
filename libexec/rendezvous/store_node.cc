// Carries lines between the launchers of a run's nodes, through c10d's TCPStore. The launcher starts it where a run has
// several nodes; its only argument is JSON that says where the store is.
//
// The launcher writes "up LINE" for the coordinator, and the coordinator's "down LINE" for all nodes. It is told "up LINE"
// (where the store is served), "down LINE", "lost NODE" (no heartbeat), "gone WHY" (the store is), "unusable WHY", and
// first of all whether this node "serves yes" or "serves no". Both logs are kept in the store in one order for all. At the
// end of its input what it was given is still told.
#include <c10/util/Logging.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "base/bounded_json.h"
#include "base/liveness.h"
#include "base/regular_file.h"
#include "launcher/rendezvous/messages.h"

namespace {

using hookline::file_size_text;
using hookline::json_or_discarded;
using hookline::kLongestMessageBytes;
using hookline::Liveness;

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kTick{50};
constexpr milliseconds kSignOfLife{500};
constexpr milliseconds kTimeToHear{3000};  // at the end, for the other nodes
const char* const kRunId = "hookline/run_id";

struct Place {
  bool serves = false;
  bool may_join = false;  // a store that another launcher of this host serves already
  std::string address, run_id, node;
  int port = 0, descriptor = -1;
  milliseconds join_timeout{}, node_timeout{};
};

Place place_of(const char* text) {
  const Json json = Json::parse(text);
  const auto time = [&](const char* key) {
    return milliseconds(static_cast<std::int64_t>(1000 * json.at(key).get<double>()));
  };
  return {json.at("serves"),     json.at("may_join"),  json.at("address"),
          json.at("run_id"),     json.at("node"),      json.at("port"),
          json.at("descriptor"), time("join_seconds"), time("node_timeout_seconds")};
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// What the launcher is to read; of what is too long for a message, that much alone.
std::string message_in(const std::vector<std::uint8_t>& bytes) {
  return bytes.size() <= kLongestMessageBytes ? text_of(bytes) : "one of " + file_size_text(bytes.size());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool listens(const Place& place) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &found) != 0)
    return false;
  bool answers = false;
  for (const addrinfo* at = found; at && !answers; at = at->ai_next) {
    const int descriptor = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    const timeval patience = {1, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // of connect too
    answers = ::connect(descriptor, at->ai_addr, at->ai_addrlen) == 0;
    ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return answers;
}

/// For the node that could not join, when its time is over. `reason`: what the store's client says.
std::string why_unreachable(const Place& place, bool taken_here, const std::string& reason) {
  const std::string where = place.address + ":" + std::to_string(place.port);
  if (taken_here)
    return "the port " + std::to_string(place.port) +
           " of this host is taken by another program, which is no node of " +
           "hookline's: set [rendezvous] main_port to a free one, on every node";
  if (!listens(place))
    return "no node that serves the nodes' store answers at " + where + " (" + reason +
           "): see that 'hookline launch' runs there, and that main_address and main_port are the same on "
           "every node";
  return "what listens at " + where +
         " does not answer as a node of hookline's does: see that main_address and " +
         "main_port are the same on every node";
}

/// The launcher at the other end of the socket.
class Launcher {
 public:
  explicit Launcher(int descriptor) : descriptor_(descriptor) {}

  void tell(const std::string& word, const std::string& text) {
    std::string line = word + " " + text;
    for (char& c : line) {
      if (c == '\n') c = ' ';
    }
    line += '\n';
    const std::lock_guard lock(mutex_);
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t count = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;  // it has ended, and this process is about to
      sent += static_cast<std::size_t>(count);
    }
  }

  /// False at its end.
  bool read(std::vector<std::string>& lines, milliseconds patience) {
    pollfd descriptor = {descriptor_, POLLIN, 0};
    if (::poll(&descriptor, 1, static_cast<int>(patience.count())) <= 0) return true;
    char block[4096];
    const ssize_t count = ::recv(descriptor_, block, sizeof block, 0);
    if (count <= 0) return false;
    received_.append(block, static_cast<std::size_t>(count));
    for (std::size_t end; (end = received_.find('\n')) != std::string::npos; received_.erase(0, end + 1))
      lines.push_back(received_.substr(0, end));
    return true;
  }

 private:
  int descriptor_;
  std::mutex mutex_;
  std::string received_;
};

/// What the thread that talks to the store shares with the one that reads from the launcher.
struct Shared {
  std::mutex mutex;
  std::vector<std::string> up, down;  // to be told
  bool closing = false;
  std::atomic<Clock::time_point> answered{Clock::now()};
  std::atomic<bool> joined{false}, ended{false};
};

class Node {
 public:
  Node(const Place& place, Launcher& launcher, Shared& shared)
      : place_(place), launcher_(launcher), shared_(shared) {}

  bool taken_here() const { return taken_here_; }

  void run() {
    if (open()) {
      shared_.answered = Clock::now();
      shared_.joined = true;
      try {
        while (turn()) std::this_thread::sleep_for(kTick);
      } catch (const std::exception& error) {
        launcher_.tell("gone", first_line(error.what()));
      }
    }
    shared_.ended = true;
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> connect(bool serve) const {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(place_.port);
    options.isServer = serve;
    options.waitWorkers = false;
    options.timeout = place_.join_timeout;
    return c10::make_intrusive<c10d::TCPStore>(place_.address, options);
  }

  /// The store, served or found; null, and told why, if neither.
  c10::intrusive_ptr<c10d::TCPStore> find() {
    const std::string where = place_.address + ":" + std::to_string(place_.port);
    if (place_.serves) {
      try {
        auto store = connect(/*serve=*/true);
        serves_ = true;
        return store;
      } catch (const std::exception& error) {
        const std::string why = first_line(error.what());
        const bool taken = why.find("EADDRINUSE") != std::string::npos;
        if (!taken || !place_.may_join) {
          launcher_.tell("unusable", taken ? "the port " + std::to_string(place_.port) +
                                                 " is taken on this host, by another program or by a "
                                                 "node that has the same node_rank: set "
                                                 "[rendezvous] main_port to a free one, on every node"
                                           : "the nodes' store can't be served at " + where + ": " + why);
          return {};
        }
        taken_here_ = true;
      }
    }
    try {
      auto store = connect(/*serve=*/false);
      store->wait({kRunId}, place_.join_timeout);
      return store;
    } catch (const std::exception& error) {
      launcher_.tell("unreachable", why_unreachable(place_, taken_here_, first_line(error.what())));
      return {};
    }
  }

  bool open() {
    auto store = find();
    if (!store) return false;
    try {
      if (serves_) store->set(kRunId, bytes_of(place_.run_id));
      if (const std::string other = text_of(store->get(kRunId)); other != place_.run_id) {
        launcher_.tell("unusable", "at " + place_.address + ":" + std::to_string(place_.port) +
                                       " is the run '" + other + "', and this node was started for '" +
                                       place_.run_id + "' ([rendezvous] run_id)");
        return false;
      }
    } catch (const std::exception& error) {
      launcher_.tell("gone", first_line(error.what()));
      return false;
    }
    store_ = c10::make_intrusive<c10d::PrefixStore>("hookline/nodes", std::move(store));
    launcher_.tell("serves", serves_ ? "yes" : "no");
    return true;
  }

  /// False once all is told that there was to tell.
  bool turn() {
    const auto now = Clock::now();
    std::vector<std::string> up, down;
    bool closing = false;
    {
      const std::lock_guard lock(shared_.mutex);
      up.swap(shared_.up);
      down.swap(shared_.down);
      closing = shared_.closing;
    }
    for (const std::string& line : up)
      store_->set("up/" + std::to_string(store_->add("ups", 1)), bytes_of(line));
    for (const std::string& line : down) {
      store_->set("down/" + std::to_string(++downs_told_), bytes_of(line));
      store_->add("downs", 1);
    }
    if (now - last_sign_ >= kSignOfLife) {
      last_sign_ = now;
      store_->set("life/" + place_.node, bytes_of(std::to_string(++signs_)));
    }
    read_downs();
    if (serves_) read_ups(now);
    if (serves_) look_for_life(now);
    shared_.answered = Clock::now();
    if (!closing) return true;
    if (!serves_) return false;
    if (!closing_since_) closing_since_ = now;
    return now - *closing_since_ < kTimeToHear && !all_have_heard();
  }

  void read_downs() {
    const std::int64_t there = store_->add("downs", 0);
    if (downs_read_ == there) return;
    while (downs_read_ < there)
      launcher_.tell("down", message_in(store_->get("down/" + std::to_string(++downs_read_))));
    store_->set("heard/" + place_.node, bytes_of(std::to_string(downs_read_)));
  }

  void read_ups(Clock::time_point now) {
    const std::int64_t there = store_->add("ups", 0);
    while (ups_read_ < there) {
      if (!store_->check({"up/" + std::to_string(ups_read_ + 1)})) {
        // Counted and not yet there; one whose sender has gone meanwhile never comes.
        if (hole_ != ups_read_ + 1) hole_since_ = now;
        hole_ = ups_read_ + 1;
        if (now - hole_since_ <= place_.node_timeout) return;
        ++ups_read_;
        continue;
      }
      const std::string line = message_in(store_->get("up/" + std::to_string(++ups_read_)));
      const Json json = json_or_discarded<Json>(line);
      const auto word = [&json](const char* key) -> std::string {
        const bool is_there = json.is_object() && json.contains(key) && json[key].is_string();
        return is_there ? json[key].get<std::string>() : "";
      };
      const std::string from = word("from");
      if (!from.empty() && from != place_.node) {
        const std::string is = word("is");
        others_.expect(from, now);
        if (is == "leave") others_.lose(from);
        if (is == "hello") others_.join(from, now);  // also one that was taken for lost
      }
      launcher_.tell("up", line);
    }
  }

  void look_for_life(Clock::time_point now) {
    for (const std::string& node : others_.present()) {
      const std::string key = "life/" + node;
      if (store_->check({key})) others_.hear(node, text_of(store_->get(key)), now);
    }
    for (const std::string& node : others_.late(place_.node_timeout, now)) {
      others_.lose(node);
      launcher_.tell("lost", node);
    }
  }

  bool all_have_heard() {
    for (const std::string& node : others_.present()) {
      const std::string key = "heard/" + node;
      if (!store_->check({key}) || text_of(store_->get(key)) != std::to_string(downs_told_)) return false;
    }
    return true;
  }

  const Place& place_;
  Launcher& launcher_;
  Shared& shared_;
  c10::intrusive_ptr<c10d::Store> store_;
  bool serves_ = false;
  std::atomic<bool> taken_here_{false};  // the port, by somebody else on this host
  std::int64_t ups_read_ = 0, downs_read_ = 0, downs_told_ = 0, signs_ = 0;
  std::int64_t hole_ = 0;
  Clock::time_point hole_since_{}, last_sign_{};
  Liveness<std::string> others_;  // nodes that have said something
  std::optional<Clock::time_point> closing_since_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "store_node: this is a part of 'hookline launch', which starts it by itself\n");
    return 2;
  }
  // A scheduler signals every process of a job; this one is told by its launcher, and ends with it.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);  // what it meets is told by hookline
  c10::initLogging();
  const Place place = place_of(argv[1]);
  const auto start = Clock::now();
  Launcher launcher(place.descriptor);
  Shared shared;
  Node node(place, launcher, shared);
  std::thread talker([&] { node.run(); });
  bool open = true;
  while (!shared.ended) {
    std::vector<std::string> lines;
    if (open && !launcher.read(lines, kTick)) open = false;
    if (!open) std::this_thread::sleep_for(kTick);
    {
      const std::lock_guard lock(shared.mutex);
      for (const std::string& line : lines) {
        if (line.starts_with("up ")) shared.up.push_back(line.substr(3));
        if (line.starts_with("down ")) shared.down.push_back(line.substr(5));
      }
      shared.closing = !open;
    }
    if (!open && !shared.joined) break;
    // A stranger that listens there may never answer.
    if (!shared.joined && Clock::now() - start > place.join_timeout + kTimeToHear) {
      launcher.tell("unreachable", why_unreachable(place, node.taken_here(), "it did not answer in time"));
      break;
    }
    // A call to a store whose host is cut off does not return.
    const auto silence = Clock::now() - shared.answered.load();
    if (shared.joined && silence > place.node_timeout) {
      launcher.tell("gone",
                    "it has not answered for " +
                        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(silence).count()) +
                        " s");
      break;
    }
  }
  std::fflush(nullptr);
  std::_Exit(0);  // the talker may never return
}
