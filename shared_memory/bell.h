// How a rank sleeps until another one wakes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hookline {

/// Lies in shared memory, zero at first: one rank sleeps on it, and any rank of up to 64 wakes that one. The sleeper names whom
/// it waits for, so that the others need no system call for it.
///
/// The sleeper calls expect, looks once more whether there is something to do, and if not sleeps. Whoever changes what it may
/// look at calls ring afterwards. No wake-up is lost: of a look that came too early and a ring that came too late, one sees the
/// other (both sides store, then load, sequentially consistent).
class Bell {
 public:
  /// From now on a ring of one of `ranks`, bit r for rank r, wakes the sleeper. Returns what sleep needs.
  std::uint32_t expect(std::uint64_t ranks);

  /// Nobody needs to ring any more.
  void expect_nobody() { expected_.store(0); }

  /// Returns at a ring since expect returned `ticket`, or after `limit`, or now and then without a reason.
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
