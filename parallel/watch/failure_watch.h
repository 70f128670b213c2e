// Ends every rank's waiting when one rank fails, dies or stops.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "hooks/future.h"

namespace hookline {

/// Watches the ranks of a World while one waits for another.
///
/// Gloo has no abort: a rank that throws, or is stopped, leaves the others in a collective until its timeout. So what
/// a rank waits for is a future of its own, which this class completes: with the collective's result, or with
/// RunFailed as soon as any rank has failed. The first failure is written to the store and is what every rank ends
/// with. Each rank also writes a heartbeat to the store, twice a second, from a thread of its own. Rank 0 reads them
/// all, and writes down which rank has been quiet for the longest, which the others read: the reads grow with the number of
/// ranks, not with its square. A rank without a sign for `peer_timeout` while others wait has failed too, be it
/// dead, stopped or cut off; so has rank 0 if what it writes does not change for so long. With the sign goes where the
/// rank is among the calls that all make, so that rank 0 finds ranks that wait for each other.
///
/// Thread-safe. Its destructor, on any thread, tells the others that this rank has left.
class FailureWatch {
  struct State;

 public:
  /// `store` is to be of this World alone; `peer_timeout` of 0 leaves only failures that ranks report themselves. After
  /// `long_wait` in one collective rank 0 warns, and names the ranks that have not joined it.
  FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
               std::chrono::milliseconds peer_timeout,
               std::chrono::milliseconds long_wait = std::chrono::seconds(30));
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// A future that completes as `inner` does, or with RunFailed. An error of `inner` fails the run, as
  /// "`what` failed on rank 1: …"; a PeerError does so only after the rank that caused it had time to say why.
  FuturePtr guard(const FuturePtr& inner, const std::string& what);

  /// Counts a call of those that every rank makes in the same order, as `sequence`, and returns its number among them. The
  /// other ranks see how far this one is.
  std::int64_t start_call(const std::string& sequence);

  /// While it lives, this thread of the rank's program waits for a call that needs every rank. If ranks wait for each other, each in
  /// a call that another has not reached and can't reach any more, the run fails with what each of them waits in. A rank waits if
  /// all of its threads do that have ever made such calls.
  class Waiting {
   public:
    Waiting(const FailureWatch& watch, const std::string& sequence, std::int64_t number,
            const std::string& what);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::shared_ptr<State> state_;
  };

  /// Waits, shortly, until the other ranks have heard of the failures that this process knows of: those that the store's
  /// process must not end before. The destructor does it for its own.
  static void let_others_hear();

  /// What the run failed with; empty while it has not.
  std::string failure() const;

 private:
  class Talker;
  struct Living;

  std::shared_ptr<State> state_;
  int rank_;
  bool alone_;
  std::thread talker_, minder_;
};

}  // namespace hookline
