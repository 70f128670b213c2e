// Runs actions in a fixed order, whatever the order in which they become ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace hookline {

/// Runs actions one after another, in the order of their tickets. An action that is ready early waits,
/// without blocking a thread. Thread-safe. Every ticket that is drawn must be used exactly once.
class InOrder {
 public:
  /// Returns the next ticket, from 0.
  std::uint64_t draw_ticket() { return tickets_drawn_.fetch_add(1); }

  /// Runs `action` once those of all earlier tickets have run: on this thread, followed by actions that have
  /// waited for it, or later on the thread of an earlier action. `action` may call run(), and must not throw.
  void run(std::uint64_t ticket, std::function<void()> action);

 private:
  std::atomic<std::uint64_t> tickets_drawn_{0};
  std::mutex mutex_;  // guards the rest; never held while an action runs
  std::map<std::uint64_t, std::function<void()>> waiting_;
  std::uint64_t next_turn_ = 0;
  bool running_ = false;
};

}  // namespace hookline
