// Ends every rank's waiting when one rank fails, dies or stops.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "hooks/future.h"

namespace hookline {

/// Watches the ranks of a World while one waits for another.
///
/// Gloo has no abort: if a rank throws or is stopped, the others stay in a collective until its timeout. So
/// each rank waits for a separate future, which this class completes with the collective's result, or with
/// RunFailed as soon as any rank fails. The first failure is written to the store, and every rank fails with
/// it.
///
/// Each rank also writes a heartbeat to the store twice a second, on its own thread. Rank 0 reads all
/// heartbeats and publishes which rank has been silent the longest; the others read only that, so the number
/// of reads grows linearly with the number of ranks. A rank that sends no heartbeat for `peer_timeout` while
/// others wait counts as failed: dead, stopped or cut off. So does rank 0 if what it publishes stops
/// changing. Heartbeats also contain the rank's position among the calls that all ranks make, from which rank
/// 0 detects deadlocks.
///
/// Thread-safe. Its destructor, on any thread, tells the others that this rank has left.
class FailureWatch {
  struct State;

 public:
  /// How long one collective may take before rank 0 warns of it.
  static constexpr std::chrono::seconds kLongWait{30};

  /// Made by World. `store` is to be of this World alone; `peer_timeout` of 0 leaves only failures that ranks
  /// report themselves. After `long_wait` in one collective rank 0 warns, and names the ranks that have not
  /// joined it. `store_holder`: who holds the store, for messages.
  FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
               std::chrono::milliseconds peer_timeout, std::chrono::milliseconds long_wait = kLongWait,
               std::string store_holder = "rank 0");
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// A future that completes as `inner` does, or with RunFailed. An error of `inner` fails the run, as
  /// "`what` failed on rank 1: …"; a PeerError does so only after the rank that caused it had time to say
  /// why.
  FuturePtr watched(const FuturePtr& inner, const std::string& what);

  /// Counts a call of those that every rank makes in the same order, as `sequence`, and returns its number
  /// among them. The other ranks see how far this one is.
  std::int64_t start_call(const std::string& sequence);

  /// While it lives, the calling thread waits in a call that needs every rank. If ranks deadlock, each
  /// waiting in a call that another can no longer reach, the run fails with an error that names each rank's
  /// call. A rank counts as waiting only if all of its threads that have ever made such calls wait.
  class Waiting {
   public:
    /// Begins to wait in call `number` of `sequence`, as start_call() has counted it; `what` names the call
    /// in an error.
    Waiting(const FailureWatch& watch, const std::string& sequence, std::int64_t number,
            const std::string& what);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::shared_ptr<State> state_;
  };

  /// Waits briefly until the other ranks have read the failures that this process knows of. Call it before
  /// the process that holds the store exits; the destructor does the same for its own World.
  static void let_others_hear();

  /// What the run failed with, once it has.
  std::optional<RunFailed> failure() const;

 private:
  class Talker;
  struct Living;

  std::shared_ptr<State> state_;
  int rank_;
  bool alone_;
  std::thread talker_, minder_;
};

}  // namespace hookline
