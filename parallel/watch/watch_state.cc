#include "parallel/watch/watch_state.h"

#include <torch/csrc/autograd/graph_task.h>

#include <exception>

#include "base/error.h"
#include "base/text/duration_text.h"
#include "parallel/rank/rank_status.h"
#include "parallel/watch/heartbeat.h"
#include "parallel/watch/watch_times.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

}  // namespace

void FailureWatch::State::fail(const RunFailed& why) {
  std::map<std::uint64_t, Wait> ended;
  {
    const std::lock_guard lock(mutex);
    if (!failure) failure = why;
    ended.swap(waits);
    own_failure.reset();
  }
  changed.notify_all();
  if (!ended.empty() && own_rank >= 0) tell_waiting(own_rank, true);  // perhaps the last status of this rank
  for (const auto& [id, wait] : ended) wait.result->setError(std::make_exception_ptr(why));
}

void FailureWatch::State::report(const std::string& text, bool may_have_a_cause) {
  const std::lock_guard lock(mutex);
  if (!own_failure && !failure) own_failure = OwnFailure{text, may_have_a_cause, Clock::now()};
  changed.notify_all();
}

void FailureWatch::State::lose_store(int rank, RunFailed::Cause cause, const std::string& how,
                                     const std::string& detail) {
  std::string text = store_holder + ", which holds the store, " + how + "; rank " + std::to_string(rank) +
                     " is waiting for it in ";
  {
    const std::lock_guard lock(mutex);
    if (waits.empty()) return;
    text += waits.begin()->second.what + detail;
    if (own_failure && !own_failure->may_have_a_cause) {
      text = own_failure->text;
      cause = RunFailed::Cause::error;
    }
  }
  fail(RunFailed(text, cause));
}

void FailureWatch::State::mind(int rank, milliseconds peer_timeout) {
  std::unique_lock lock(mutex);
  while (!closing && !failure) {
    changed.wait_for(lock, watch_times::kHeartbeat);
    const auto silence = std::chrono::duration_cast<milliseconds>(Clock::now() - store_answered);
    if (peer_timeout.count() == 0 || silence < peer_timeout + watch_times::kPatience) continue;
    lock.unlock();
    lose_store(rank, RunFailed::Cause::rank_silent,
               "has not answered for " + seconds_text(silence) + ", so it is stopped or cut off");
    lock.lock();
  }
}

RankPosition FailureWatch::State::position_now() {
  const std::lock_guard lock(mutex);
  RankPosition now = position;
  if (!call_of.empty() && call_of.size() == callers.size()) now.waits = call_of.begin()->second;
  if (!waits.empty()) now.pending = RankPosition::Pending{waits.begin()->first, waits.begin()->second.what};
  return now;
}

std::string FailureWatch::State::waits_for() {
  const std::lock_guard lock(mutex);
  return waits.empty() ? "a collective" : waits.begin()->second.what;
}

void FailureWatch::State::note_caller() {
  if (torch::autograd::get_current_graph_task_id() < 0) callers.insert(std::this_thread::get_id());
}

}  // namespace hookline
