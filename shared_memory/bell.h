// How a rank sleeps until another one wakes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hookline {

/// Lies in shared memory, and is zero at first. One rank sleeps on it, and any of up to 64 ranks wakes that
/// one. The sleeper names the ranks that it waits for, so that the others need no system call.
///
/// The sleeper calls expect, checks once more whether there is something to do, and if not, calls sleep. A
/// rank that changes what the sleeper may check calls ring afterwards. No wake-up is lost: either the sleeper
/// sees the change, or the ring sees that the sleeper expects it (both sides store, then load, sequentially
/// consistent).
class Bell {
 public:
  /// From now on a ring by one of `ranks`, bit r for rank r, wakes the sleeper. Returns the ticket that sleep
  /// takes.
  std::uint32_t expect(std::uint64_t ranks);

  /// Nobody needs to ring any more.
  void expect_nobody() { expected_.store(0); }

  /// Returns once there was a ring since expect returned `ticket`, or after `limit`; may also return for no
  /// reason.
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds limit);

  /// Wakes the sleeper if it waits for one of `ranks`.
  void ring(std::uint64_t ranks);

 private:
  std::atomic<std::uint64_t> expected_;
  std::atomic<std::uint32_t> rings_;
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                std::atomic<std::uint32_t>::is_always_lock_free);
};

}  // namespace hookline
