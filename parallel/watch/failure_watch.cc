#include "parallel/watch/failure_watch.h"

#include <unistd.h>

#include <torch/csrc/autograd/graph_task.h>
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/liveness.h"
#include "base/log.h"
#include "parallel/rank/rank_status.h"
#include "parallel/watch/long_waits.h"
#include "parallel/watch/rank_position.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};        // between two looks at the store
constexpr milliseconds kSignOfLife{500};  // between two signs of life, and two looks for those of others
constexpr milliseconds kPatience{1000};   // for which nobody asks after the others
constexpr milliseconds kSuspiciousSilence{2500};  // that tells enough once a collective has broken
constexpr milliseconds kTimeToSayWhy{4500};       // for the rank that broke it to say why, or to be missed
constexpr milliseconds kTimeToHear{1000};         // of a failure; a rank that is gone never does
constexpr milliseconds kTimeToEnd{2000};          // for a thread that a dead store may hold up

std::string seconds_text(milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") + " s";
}

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// What a rank that leaves writes last, instead of a heartbeat.
const char* const kLeft = "left";      // its World is gone
const char* const kExited = "exited";  // its process is about to be

enum class Leaving { no, left, exited };

Leaving leaving_of(const std::string& sign) {
  return sign == kExited ? Leaving::exited : sign == kLeft ? Leaving::left : Leaving::no;
}

/// The rank that reads the signs of life of all others. Rank 0, whose process holds the store: without it no rank learns
/// anything anyway.
constexpr int kWatcher = 0;
const char* const kQuietestKey = "quietest";
constexpr milliseconds kLongestAway{2000};  // between two looks of a process that was not stopped

}  // namespace

/// What the threads and the callbacks share. The threads keep it alive, since one that the store holds up outlives
/// the watch.
struct FailureWatch::State {
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
  std::string failure;
  RankPosition position;                                  // without what it waits in
  std::set<std::thread::id> callers;                      // threads of the program that make calls
  std::map<std::thread::id, RankPosition::Wait> call_of;  // that a thread waits in
  Clock::time_point store_answered = Clock::now();
  bool closing = false;
  bool exiting = false;  // the process, while this World lives
  bool talker_ended = false;
  int own_rank = -1;  // of several; never changes

  /// Ends every wait with `text`; the first call counts.
  void fail(const std::string& text) {
    std::map<std::uint64_t, Wait> ended;
    {
      const std::lock_guard lock(mutex);
      if (failure.empty()) failure = text;
      ended.swap(waits);
      own_failure.reset();
    }
    changed.notify_all();
    if (!ended.empty() && own_rank >= 0)
      tell_waiting(own_rank, true);  // it may be the last that this rank tells
    for (const auto& [id, wait] : ended) wait.result->setError(std::make_exception_ptr(RunFailed(text)));
  }

  void report(const std::string& text, bool may_have_a_cause) {
    const std::lock_guard lock(mutex);
    if (!own_failure && failure.empty()) own_failure = OwnFailure{text, may_have_a_cause, Clock::now()};
    changed.notify_all();
  }

  /// Ends every wait because of the store, which is in rank 0's process: with this rank's own failure, if that has no
  /// cause elsewhere. A rank that waits for nobody may go on to its end.
  void lose_rank_zero(int rank, const std::string& how, const std::string& detail = "") {
    std::string text =
        "rank 0, which holds the store, " + how + "; rank " + std::to_string(rank) + " waits for it: ";
    {
      const std::lock_guard lock(mutex);
      if (waits.empty()) return;
      text += waits.begin()->second.what + detail;
      if (own_failure && !own_failure->may_have_a_cause) text = own_failure->text;
    }
    fail(text);
  }

  /// Minds the talker, which a store that doesn't answer holds up; on a thread of its own.
  void mind(int rank, milliseconds peer_timeout) {
    std::unique_lock lock(mutex);
    while (!closing && failure.empty()) {
      changed.wait_for(lock, kSignOfLife);
      const auto silence = std::chrono::duration_cast<milliseconds>(Clock::now() - store_answered);
      if (peer_timeout.count() == 0 || silence < peer_timeout + kPatience) continue;
      lock.unlock();
      lose_rank_zero(rank, "has not answered for " + seconds_text(silence) + ", so it is stopped or cut off");
      lock.lock();
    }
  }

  RankPosition position_now() {
    const std::lock_guard lock(mutex);
    RankPosition now = position;
    if (!call_of.empty() && call_of.size() == callers.size()) now.waits = call_of.begin()->second;
    if (!waits.empty()) now.pending = RankPosition::Pending{waits.begin()->first, waits.begin()->second.what};
    return now;
  }

  /// A backward has threads of its own, for which the program's thread waits.
  void note_caller() {
    if (torch::autograd::get_current_graph_task_id() < 0) callers.insert(std::this_thread::get_id());
  }

  std::string waits_for() {
    const std::lock_guard lock(mutex);
    return waits.empty() ? "a collective" : waits.begin()->second.what;
  }
};

/// Talks to the store, on a thread of its own.
class FailureWatch::Talker {
 public:
  Talker(std::shared_ptr<State> state, c10::intrusive_ptr<c10d::Store> store, int rank, int size,
         milliseconds peer_timeout, milliseconds long_wait)
      : state_(std::move(state)),
        store_(std::move(store)),
        rank_(rank),
        size_(size),
        peer_timeout_(peer_timeout),
        long_waits_(long_wait, kSignOfLife) {
    give_sign();
  }

  void run() {
    std::unique_lock lock(state_->mutex);
    while (!state_->closing && state_->failure.empty()) {
      const bool waiting = !state_->waits.empty();
      const auto since = waiting ? state_->waits.begin()->second.since : Clock::now();
      const auto own = state_->own_failure;
      lock.unlock();
      tell_waiting(rank_, waiting && Clock::now() - since >= kTick);
      try {
        look(waiting, since, own);
      } catch (const std::exception& error) {
        const std::string why = error.what();
        state_->lose_rank_zero(rank_, "is gone", " (" + why.substr(0, why.find('\n')) + ")");
      }
      lock.lock();
      state_->store_answered = Clock::now();
      state_->changed.wait_for(lock, kTick, [&] {
        return state_->closing || !state_->failure.empty() || (state_->own_failure && !own);
      });
    }
    const bool failed = !state_->failure.empty();
    lock.unlock();
    if (failed) {
      let_all_hear();
    } else {
      leave();
    }
    lock.lock();
    state_->talker_ended = true;
    state_->changed.notify_all();
  }

 private:
  static std::string life_key(int rank) { return "life/" + std::to_string(rank); }

  /// What one rank has read of the signs of life of all, for the others: as many reads as there are ranks, not their square.
  /// It is this rank's own heartbeat as well, since its number changes each time.
  struct Quietest {
    int rank = -1;
    milliseconds silence{-1};
    Leaving leaving = Leaving::no;

    std::string text(std::uint64_t number) const {
      return std::to_string(number) + " " + std::to_string(rank) + " " + std::to_string(silence.count()) +
             " " + std::to_string(static_cast<int>(leaving));
    }
    static Quietest parse(const std::string& text) {
      std::istringstream in(text);
      std::uint64_t number = 0;
      std::int64_t silence = 0;
      int leaving = 0;
      Quietest result;
      if (!(in >> number >> result.rank >> silence >> leaving)) return {};
      result.silence = milliseconds(silence);
      result.leaving = static_cast<Leaving>(leaving);
      return result;
    }
  };

  void give_sign() {
    store_->set(life_key(rank_), bytes_of(std::to_string(++signs_) + ' ' + pack(state_->position_now())));
    if (rank_ == kWatcher) {
      quietest_ = look_at_all();
      store_->set(kQuietestKey, bytes_of(quietest_.text(signs_)));
    }
    last_sign_ = Clock::now();
  }

  Quietest look_at_all() {
    const auto now = Clock::now();
    // After a time in which this process was stopped itself, as by Ctrl-Z, the others' silence says nothing.
    const bool was_away = now - last_sign_ > kLongestAway;
    if (was_away) {
      long_waits_.begin_anew();
      watched_.begin_anew(now);
    }
    std::vector<int> peers;
    std::vector<std::string> keys;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      // The first heartbeat of a rank that has not joined yet is not to be waited for.
      if (!watched_.knows(peer) && !store_->check({life_key(peer)})) continue;
      peers.push_back(peer);
      keys.push_back(life_key(peer));
    }
    const auto heartbeats = read(keys);
    for (std::size_t i = 0; i < peers.size(); ++i) watched_.hear(peers[i], text_of(heartbeats[i]), now);
    const auto longest = watched_.longest_silence(now);
    if (!longest) return {};
    return {longest->member, std::chrono::duration_cast<milliseconds>(longest->length),
            leaving_of(watched_.heartbeat(longest->member))};
  }

  std::vector<std::vector<std::uint8_t>> read(const std::vector<std::string>& keys) {
    if (keys.empty()) return {};
    if (store_->hasExtendedApi()) return store_->multiGet(keys);
    std::vector<std::vector<std::uint8_t>> values;
    for (const std::string& key : keys) values.push_back(store_->get(key));
    return values;
  }

  void leave() {
    try {
      const bool exits = [&] {
        const std::lock_guard lock(state_->mutex);
        return state_->exiting;
      }();
      store_->set(rank_ == kWatcher ? kQuietestKey : life_key(rank_), bytes_of(exits ? kExited : kLeft));
    } catch (const std::exception&) {
      // The store is in rank 0's process, which may have ended first: then nobody is left to be told.
    }
  }

  /// The store is in rank 0's process, which others may end, and this rank's own: it waits until all know why.
  void let_all_hear() {
    try {
      const auto deadline = Clock::now() + kTimeToHear;
      std::int64_t heard = store_->add("heard", 1);
      while (rank_ == 0 && heard < size_ && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(10));
        heard = store_->add("heard", 0);
      }
    } catch (const std::exception&) {
      // The store is gone, and rank 0 with it: it has waited long enough.
    }
  }

  void look(bool waiting, Clock::time_point since, const std::optional<State::OwnFailure>& own) {
    if (Clock::now() - last_sign_ >= kSignOfLife) {
      give_sign();
      if (rank_ == kWatcher) {
        const std::vector<RankPosition> all = positions();
        look_for_deadlock(all);
        if (const auto warning = long_waits_.look(all, Clock::now())) log::warning(*warning);
      }
    }
    if (own && !own->may_have_a_cause) return agree_on(own->text);
    if (!waiting) {
      last_look_.reset();
      return;
    }
    if (store_->check({"failure"})) return state_->fail(text_of(store_->get("failure")));
    if (own || Clock::now() - since >= kPatience) look_for_life(own.has_value());
    if (own && Clock::now() - own->since >= kTimeToSayWhy) agree_on(own->text);
  }

  /// Of all ranks, as they were when each last gave a sign, by the rank that watches.
  std::vector<RankPosition> positions() {
    std::vector<RankPosition> all(static_cast<std::size_t>(size_));
    for (std::size_t peer = 0; peer < all.size(); ++peer) {
      const std::string sign = watched_.heartbeat(static_cast<int>(peer));
      if (const auto begin = sign.find(' '); begin != std::string::npos)
        all[peer] = unpack_position(sign.substr(begin + 1));
    }
    all[static_cast<std::size_t>(rank_)] = state_->position_now();
    return all;
  }

  /// By the rank that watches, which need not wait itself. A failure of a rank's own may be what the others wait in vain for,
  /// and says more: it has until `kPatience` is over to be agreed on.
  void look_for_deadlock(const std::vector<RankPosition>& all) {
    const auto deadlock = find_deadlock(all);
    if (!deadlock) {
      deadlock_since_.reset();
    } else if (!deadlock_since_) {
      deadlock_since_ = Clock::now();
    } else if (Clock::now() - *deadlock_since_ >= kPatience && !store_->check({"failure"})) {
      agree_on(*deadlock);
    }
  }

  /// Makes `text` the run's failure, unless another rank was first.
  void agree_on(const std::string& text) {
    state_->fail(text_of(store_->compareSet("failure", {}, bytes_of(text))));
  }

  /// Fails the run if the rank that has been quiet for the longest sends no heartbeat. `suspicious`: a collective
  /// has failed already, so that a shorter silence tells enough.
  void look_for_life(bool suspicious) {
    if (rank_ == kWatcher) return judge(quietest_, suspicious);
    const auto now = Clock::now();
    if (last_look_ && now - *last_look_ < kSignOfLife) return;
    const std::string found = text_of(store_->get(kQuietestKey));
    if (!last_look_ || now - *last_look_ > kLongestAway) watched_.begin_anew(now);
    watched_.hear(kWatcher, found, now);
    last_look_ = now;
    // Who watches the others may be the one that is dead: then what it has written last does not change any more.
    const Leaving watcher = leaving_of(found);
    const auto silence = watched_.longest_silence(now)->length;
    judge({kWatcher, std::chrono::duration_cast<milliseconds>(silence), watcher}, suspicious);
    const Quietest quietest = Quietest::parse(found);
    if (watcher == Leaving::no && quietest.rank != rank_) judge(quietest, suspicious);
  }

  void judge(const Quietest& quietest, bool suspicious) {
    if (quietest.rank < 0) return;
    const std::string who = "rank " + std::to_string(quietest.rank);
    const std::string me = "rank " + std::to_string(rank_);
    const milliseconds limit = suspicious ? std::min(peer_timeout_, kSuspiciousSilence) : peer_timeout_;
    if (quietest.leaving != Leaving::no) {
      const std::string how = quietest.leaving == Leaving::exited ? " exited" : " left the run";
      if (quietest.silence >= kPatience)
        agree_on(who + how + " while " + me + " was waiting for it in " + state_->waits_for());
    } else if (peer_timeout_.count() > 0 && quietest.silence >= limit) {
      agree_on(who + " has sent no heartbeat for " + seconds_text(quietest.silence) +
               ", so it is dead, stopped or cut off; " + me + " waits for it: " + state_->waits_for());
    }
  }

  std::shared_ptr<State> state_;
  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, size_;
  const milliseconds peer_timeout_;
  std::uint64_t signs_ = 0;
  Clock::time_point last_sign_;
  std::optional<Clock::time_point> last_look_;  // for life, since this rank began to wait
  Liveness<int> watched_;                       // by rank 0 all others, by the others rank 0
  LongWaits long_waits_;                        // by rank 0
  Quietest quietest_;
  std::optional<Clock::time_point> deadlock_since_;
};

/// The watches of this process.
struct FailureWatch::Living {
  std::mutex mutex;
  std::vector<std::shared_ptr<State>> states;

  static Living& of_process() {
    static Living& living = *new Living;  // a World may outlive whatever is destroyed at exit
    return living;
  }

  /// std::exit destroys nothing that lives on a stack, so that the others would miss this rank without knowing why.
  static void leave_at_exit() {
    static const pid_t process = getpid();
    static const bool registered = std::atexit([] {
                                     // In a forked child the threads are missing, and a mutex may be locked for ever.
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
      state->changed.wait_for(lock, kTimeToEnd, [&] { return state->talker_ended; });
    }
  }
};

FailureWatch::FailureWatch(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           milliseconds peer_timeout, milliseconds long_wait)
    : state_(std::make_shared<State>()), rank_(rank), alone_(size == 1) {
  if (alone_) return;
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
    ended = state_->changed.wait_for(lock, kTimeToEnd, [&] { return state_->talker_ended; });
  }
  minder_.join();
  if (ended) {
    talker_.join();
  } else {
    talker_.detach();  // it waits for a store that doesn't answer, and holds all that it needs
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
    if (!state->failure.empty())
      state->changed.wait_for(lock, kTimeToEnd, [&] { return state->talker_ended; });
  }
}

FuturePtr FailureWatch::guard(const FuturePtr& inner, const std::string& what) {
  auto result = c10::make_intrusive<c10::ivalue::Future>(inner->elementType(), inner->devices());
  std::uint64_t id = 0;
  {
    std::unique_lock lock(state_->mutex);
    if (!state_->failure.empty()) {
      const auto error = std::make_exception_ptr(RunFailed(state_->failure));
      lock.unlock();
      result->setError(error);
      return result;
    }
    id = state_->waits_so_far++;
    state_->waits.emplace(id, State::Wait{result, what, Clock::now()});
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
          return alone ? state->fail(error.what()) : state->report(error.what(), false);
        } catch (const std::exception& error) {
          why = error.what();
        } catch (...) {
        }
        const std::string text = what + " failed on rank " + std::to_string(rank) + ": " + why;
        if (alone) {
          state->fail(text);
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

std::string FailureWatch::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

}  // namespace hookline
