// One node's connection to the store that all nodes of a run share: joins it, and carries lines between the
// launchers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "libexec/rendezvous/launcher_socket.h"
#include "libexec/rendezvous/node_lives.h"
#include "libexec/rendezvous/place.h"

namespace hookline {

/// What the thread that talks to the store shares with the one that reads from the launcher.
struct SharedLines {
  using Clock = std::chrono::steady_clock;

  std::mutex mutex;                                       // guards the next three
  std::vector<std::string> up, down;                      // still to be written to the store
  bool closing = false;                                   // no more lines will come
  std::atomic<Clock::time_point> answered{Clock::now()};  // when the store answered last
  std::atomic<bool> joined{false}, ended{false};
};

/// The arguments must outlive it. Only one thread may call run().
class StoreNode {
 public:
  StoreNode(const StoreArguments& place, LauncherSocket& launcher, SharedLines& shared);

  /// Returns when every line has been carried, or when the store can't be used any more, which it reports to
  /// the launcher.
  void run();

  /// True if another process on this host uses the port.
  bool taken_here() const { return taken_here_; }

 private:
  using Clock = std::chrono::steady_clock;

  c10::intrusive_ptr<c10d::TCPStore> connect(bool serve) const;
  /// Serves the store or connects to it. If neither works, tells the launcher why and returns null.
  c10::intrusive_ptr<c10d::TCPStore> find();
  bool open();
  /// False once every line has been carried.
  bool turn();
  void read_downs();
  void read_ups(Clock::time_point now);
  void look_for_life(Clock::time_point now);
  bool all_have_heard();
  /// Empty if the store has no such key.
  std::string text_at(const std::string& key);

  const StoreArguments& place_;
  LauncherSocket& launcher_;
  SharedLines& shared_;
  NodeLives lives_;
  c10::intrusive_ptr<c10d::Store> store_;
  bool serves_ = false;
  std::atomic<bool> taken_here_{false};
  std::int64_t ups_read_ = 0, downs_read_ = 0, downs_told_ = 0, heartbeats_ = 0;
  std::int64_t hole_ = 0;  // the line that is counted but not stored yet
  Clock::time_point hole_since_{}, last_heartbeat_{};
  std::optional<Clock::time_point> closing_since_;
};

}  // namespace hookline
