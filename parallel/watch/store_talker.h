// Carries heartbeats, failures and what follows from them between a rank's watch and the store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/liveness.h"
#include "parallel/watch/failure_watch.h"
#include "parallel/watch/heartbeat.h"
#include "parallel/watch/long_waits.h"
#include "parallel/watch/watch_state.h"

namespace hookline {

/// Talks to the store, on a thread of its own; decides nothing that a pure function here could.
class FailureWatch::Talker {
 public:
  /// Writes the first heartbeat.
  Talker(std::shared_ptr<State> state, c10::intrusive_ptr<c10d::Store> store, int rank, int size,
         std::chrono::milliseconds peer_timeout, std::chrono::milliseconds long_wait);

  /// Until the watch closes, or its run has failed.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  bool watches_all() const;
  void write_heartbeat();
  SilentRank look_at_all();
  std::vector<std::vector<std::uint8_t>> read(const std::vector<std::string>& keys);
  void leave();
  /// Records that this rank has read the failure. Rank 0, whose process holds the store of a run on one
  /// host, waits until all ranks have done so, for kTimeToHear at most.
  void let_all_hear();
  void look(bool waiting, Clock::time_point since, const std::optional<State::OwnFailure>& own);
  /// Of all ranks, as they were at each one's last heartbeat, by the rank that watches.
  std::vector<RankPosition> positions();
  /// Called by the watching rank, even if it does not wait itself. Fails the run only if the deadlock lasts
  /// for `kPatience`: a rank may have failed on its own meanwhile, and its error says more.
  void look_for_deadlock(const std::vector<RankPosition>& all);
  /// Makes `why` the run's failure, unless another rank was first.
  void agree_on(const RunFailed& why);
  /// Fails the run if the rank that has been silent for the longest is lost. `suspicious`: a collective has
  /// failed already.
  void look_for_life(bool suspicious);
  void judge(const SilentRank& silent, bool suspicious);

  std::shared_ptr<State> state_;
  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, size_;
  const std::chrono::milliseconds peer_timeout_;
  std::uint64_t heartbeats_ = 0;  // written
  Clock::time_point last_heartbeat_;
  std::optional<Clock::time_point> last_look_;  // at whether others live, since this rank began to wait
  Liveness<int> watched_;                       // by rank 0 all others, by the others rank 0
  LongWaits long_waits_;                        // by rank 0
  SilentRank quietest_;                         // by rank 0
  std::optional<Clock::time_point> deadlock_since_;
};

}  // namespace hookline
