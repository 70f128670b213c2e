#include "parallel/watch/failure_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/watch/store_talker.h"
#include "parallel/watch/watch_state.h"
#include "parallel/watch/watch_times.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

}  // namespace

/// The watches of this process.
struct FailureWatch::Living {
  std::mutex mutex;
  std::vector<std::shared_ptr<State>> states;

  static Living& of_process() {
    static Living& living = *new Living;  // a World may outlive whatever is destroyed at exit
    return living;
  }

  /// std::exit does not destroy objects on the stack: without this, the other ranks would lose this one
  /// without knowing why.
  static void leave_at_exit() {
    static const pid_t process = getpid();
    static const bool registered = std::atexit([] {
                                     // In a forked child the threads are missing, and a mutex may be locked
                                     // for ever.
                                     if (getpid() == process) leave_all();
                                   }) == 0;
    static_cast<void>(registered);
  }

 private:
  static void leave_all() {
    std::vector<std::shared_ptr<State>> states;
    {
      const std::lock_guard lock(of_process().mutex);
      states = of_process().states;
    }
    for (const auto& state : states) {
      const std::lock_guard lock(state->mutex);
      state->closing = state->exiting = true;
      state->changed.notify_all();
    }
    for (const auto& state : states) {
      std::unique_lock lock(state->mutex);
      state->changed.wait_for(lock, watch_times::kTimeToEnd, [&] { return state->talker_ended; });
    }
  }
};

FailureWatch::FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           milliseconds peer_timeout, milliseconds long_wait, std::string store_holder)
    : state_(std::make_shared<State>()), rank_(rank), alone_(size == 1) {
  if (alone_) return;
  state_->store_holder = std::move(store_holder);
  state_->own_rank = rank;
  Living::leave_at_exit();
  {
    const std::lock_guard lock(Living::of_process().mutex);
    Living::of_process().states.push_back(state_);
  }
  auto talker = std::make_shared<Talker>(state_, std::move(store), rank, size, peer_timeout, long_wait);
  talker_ = std::thread([talker] { talker->run(); });
  minder_ = std::thread([state = state_, rank, peer_timeout] { state->mind(rank, peer_timeout); });
}

FailureWatch::~FailureWatch() {
  if (alone_) return;
  {
    const std::lock_guard lock(Living::of_process().mutex);
    std::erase(Living::of_process().states, state_);
  }
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->closing = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, watch_times::kTimeToEnd, [&] { return state_->talker_ended; });
  }
  minder_.join();
  if (ended) {
    talker_.join();
  } else {
    talker_.detach();  // stuck in a call to the store; it owns all that it needs
  }
}

void FailureWatch::let_others_hear() {
  std::vector<std::shared_ptr<State>> states;
  {
    const std::lock_guard lock(Living::of_process().mutex);
    states = Living::of_process().states;
  }
  for (const auto& state : states) {
    std::unique_lock lock(state->mutex);
    if (state->failure)
      state->changed.wait_for(lock, watch_times::kTimeToEnd, [&] { return state->talker_ended; });
  }
}

FuturePtr FailureWatch::watched(const FuturePtr& inner, const std::string& what) {
  auto result = c10::make_intrusive<c10::ivalue::Future>(inner->elementType(), inner->devices());
  std::uint64_t id = 0;
  {
    std::unique_lock lock(state_->mutex);
    if (state_->failure) {
      const auto error = std::make_exception_ptr(*state_->failure);
      lock.unlock();
      result->setError(error);
      return result;
    }
    id = state_->waits_so_far++;
    state_->waits.emplace(id, State::Wait{result, what, State::Clock::now()});
  }
  inner->addCallback(
      [state = state_, id, result, what, rank = rank_, alone = alone_](c10::ivalue::Future& done) {
        if (!done.hasError()) {
          {
            const std::lock_guard lock(state->mutex);
            if (state->waits.erase(id) == 0) return;  // failed meanwhile
          }
          result->markCompleted(done.value());
          return;
        }
        bool may_have_a_cause = false;
        std::string why = "an exception of unknown type";
        try {
          std::rethrow_exception(done.exception_ptr());
        } catch (const PeerError& error) {
          may_have_a_cause = true;
          why = error.what();
        } catch (const RanksDiffer& error) {
          return alone ? state->fail(RunFailed(error.what())) : state->report(error.what(), false);
        } catch (const std::exception& error) {
          why = error.what();
        } catch (...) {
        }
        const std::string text = what + " failed on rank " + std::to_string(rank) + ": " + why;
        if (alone) {
          state->fail(RunFailed(text));
        } else {
          state->report(text, may_have_a_cause);
        }
      });
  return result;
}

std::int64_t FailureWatch::start_call(const std::string& sequence) {
  const std::lock_guard lock(state_->mutex);
  state_->note_caller();
  return state_->position.started[sequence]++;
}

FailureWatch::Waiting::Waiting(const FailureWatch& watch, const std::string& sequence, std::int64_t number,
                               const std::string& what)
    : state_(watch.state_) {
  const std::lock_guard lock(state_->mutex);
  state_->note_caller();
  state_->call_of[std::this_thread::get_id()] = {sequence, number, what};
}

FailureWatch::Waiting::~Waiting() {
  const std::lock_guard lock(state_->mutex);
  state_->call_of.erase(std::this_thread::get_id());
}

std::optional<RunFailed> FailureWatch::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

}  // namespace hookline
