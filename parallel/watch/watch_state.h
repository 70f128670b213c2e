// What a rank waits for, and what its run has failed with.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/error.h"
#include "hooks/future.h"
#include "parallel/watch/failure_watch.h"
#include "parallel/watch/rank_position.h"

namespace hookline {

/// What the watch's threads and its callbacks share. The threads keep it alive, since one that the store
/// holds up outlives the watch. Knows no store.
struct FailureWatch::State {
  using Clock = std::chrono::steady_clock;

  struct Wait {
    FuturePtr result;
    std::string what;
    Clock::time_point since;
  };
  struct OwnFailure {
    std::string text;
    bool may_have_a_cause;  // on another rank, which may say more
    Clock::time_point since;
  };

  std::mutex mutex;  // guards all below; never held while a future is completed
  std::condition_variable changed;
  std::map<std::uint64_t, Wait> waits;  // oldest first
  std::uint64_t waits_so_far = 0;
  std::optional<OwnFailure> own_failure;  // not yet agreed on
  std::optional<RunFailed> failure;
  RankPosition position;                                  // without what it waits in
  std::set<std::thread::id> callers;                      // threads of the program that make calls
  std::map<std::thread::id, RankPosition::Wait> call_of;  // that a thread waits in
  Clock::time_point store_answered = Clock::now();
  bool closing = false;
  bool exiting = false;  // the process, while this World lives
  bool talker_ended = false;
  int own_rank = -1;         // of several; never changes
  std::string store_holder;  // likewise

  /// Ends every wait with `why`; the first call counts.
  void fail(const RunFailed& why);
  /// A failure of this rank's own, which the ranks are still to agree on.
  void report(const std::string& text, bool may_have_a_cause);
  /// Ends every wait because the store does not respond. The error is this rank's own
  /// failure, if it has one without a cause on another rank. Does nothing if this rank does not wait: it may
  /// then finish undisturbed.
  void lose_store(int rank, RunFailed::Cause cause, const std::string& how, const std::string& detail = "");
  /// Watches the talker, which hangs if the store does not answer. Runs on a thread of its own.
  void mind(int rank, std::chrono::milliseconds peer_timeout);

  RankPosition position_now();
  std::string waits_for();
  /// Call it with the lock held. A backward has threads of its own, for which the program's thread waits.
  void note_caller();
};

}  // namespace hookline
