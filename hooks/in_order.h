// Actions that become ready in any order, and run in one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace hookline {

/// Runs actions one after another, in the order of their turns. One that is ready early waits, without a thread. Thread-safe.
/// Every turn that is taken must be used exactly once.
class InOrder {
 public:
  std::uint64_t take_turn() { return turns_taken_.fetch_add(1); }

  /// Runs `action`, and those that have waited for it, on this thread; if other actions are running, the thread that runs
  /// them takes it along. `action` may call run(), and must not throw.
  void run(std::uint64_t turn, std::function<void()> action);

 private:
  std::atomic<std::uint64_t> turns_taken_{0};
  std::mutex mutex_;  // guards the rest; never held while an action runs
  std::map<std::uint64_t, std::function<void()>> waiting_;
  std::uint64_t next_turn_ = 0;
  bool running_ = false;
};

}  // namespace hookline
