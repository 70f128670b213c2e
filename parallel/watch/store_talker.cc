#include "parallel/watch/store_talker.h"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "parallel/rank/rank_status.h"
#include "parallel/watch/watch_times.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

std::string text_in_store(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<std::uint8_t> bytes_for_store(const std::string& text) { return {text.begin(), text.end()}; }

/// The rank that reads the heartbeats of all others. On one host its process also holds the store.
constexpr int kWatcher = 0;
const char* const kQuietestKey = "quietest";

std::string life_key(int rank) { return "life/" + std::to_string(rank); }

}  // namespace

FailureWatch::Talker::Talker(std::shared_ptr<State> state, c10::intrusive_ptr<c10d::Store> store, int rank,
                             int size, milliseconds peer_timeout, milliseconds long_wait)
    : state_(std::move(state)),
      store_(std::move(store)),
      rank_(rank),
      size_(size),
      peer_timeout_(peer_timeout),
      long_waits_(long_wait, watch_times::kHeartbeat) {
  write_heartbeat();
}

bool FailureWatch::Talker::watches_all() const { return rank_ == kWatcher; }

void FailureWatch::Talker::run() {
  std::unique_lock lock(state_->mutex);
  while (!state_->closing && !state_->failure) {
    const bool waiting = !state_->waits.empty();
    const auto since = waiting ? state_->waits.begin()->second.since : Clock::now();
    const auto own = state_->own_failure;
    lock.unlock();
    tell_waiting(rank_, waiting && Clock::now() - since >= watch_times::kTick);
    try {
      look(waiting, since, own);
    } catch (const std::exception& error) {
      const std::string why = error.what();
      state_->lose_store(rank_, RunFailed::Cause::rank_left, "is gone",
                         " (" + why.substr(0, why.find('\n')) + ")");
    }
    lock.lock();
    state_->store_answered = Clock::now();
    state_->changed.wait_for(lock, watch_times::kTick, [&] {
      return state_->closing || state_->failure || (state_->own_failure && !own);
    });
  }
  const bool failed = state_->failure.has_value();
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

void FailureWatch::Talker::write_heartbeat() {
  store_->set(life_key(rank_), bytes_for_store(heartbeat_text(++heartbeats_, state_->position_now())));
  if (watches_all()) {
    quietest_ = look_at_all();
    store_->set(kQuietestKey, bytes_for_store(quietest_.text(heartbeats_)));
  }
  last_heartbeat_ = Clock::now();
}

SilentRank FailureWatch::Talker::look_at_all() {
  const auto now = Clock::now();
  // If this process was stopped, as by Ctrl-Z, the silence of the others means nothing.
  if (now - last_heartbeat_ > watch_times::kLongestAway) {
    long_waits_.begin_anew();
    watched_.begin_anew(now);
  }
  std::vector<int> peers;
  std::vector<std::string> keys;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    // Skip ranks that have not joined yet, since reading their keys would wait.
    if (!watched_.knows(peer) && !store_->check({life_key(peer)})) continue;
    peers.push_back(peer);
    keys.push_back(life_key(peer));
  }
  const auto heartbeats = read(keys);
  for (std::size_t i = 0; i < peers.size(); ++i) watched_.hear(peers[i], text_in_store(heartbeats[i]), now);
  const auto longest = watched_.longest_silence(now);
  if (!longest) return {};
  return {longest->member, std::chrono::duration_cast<milliseconds>(longest->length),
          leaving_of(watched_.heartbeat(longest->member))};
}

std::vector<std::vector<std::uint8_t>> FailureWatch::Talker::read(const std::vector<std::string>& keys) {
  if (keys.empty()) return {};
  if (store_->hasExtendedApi()) return store_->multiGet(keys);
  std::vector<std::vector<std::uint8_t>> values;
  for (const std::string& key : keys) values.push_back(store_->get(key));
  return values;
}

void FailureWatch::Talker::leave() {
  try {
    const bool exits = [&] {
      const std::lock_guard lock(state_->mutex);
      return state_->exiting;
    }();
    store_->set(watches_all() ? kQuietestKey : life_key(rank_),
                bytes_for_store(last_heartbeat(exits ? Leaving::exited : Leaving::left)));
  } catch (const std::exception&) {
    // Rank 0's process may hold the store, and have exited first. Then there is nobody left to tell.
  }
}

void FailureWatch::Talker::let_all_hear() {
  try {
    const auto deadline = Clock::now() + watch_times::kTimeToHear;
    std::int64_t heard = store_->add("heard", 1);
    while (rank_ == 0 && heard < size_ && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(10));
      heard = store_->add("heard", 0);
    }
  } catch (const std::exception&) {
    // The store is gone, and with it whoever held it, who has waited long enough.
  }
}

void FailureWatch::Talker::look(bool waiting, Clock::time_point since,
                                const std::optional<State::OwnFailure>& own) {
  if (Clock::now() - last_heartbeat_ >= watch_times::kHeartbeat) {
    write_heartbeat();
    if (watches_all()) {
      const std::vector<RankPosition> all = positions();
      look_for_deadlock(all);
      if (const auto warning = long_waits_.look(all, Clock::now())) log::warning(*warning);
    }
  }
  if (own && !own->may_have_a_cause) return agree_on(RunFailed(own->text));
  if (!waiting) {
    last_look_.reset();
    return;
  }
  if (store_->check({"failure"})) return state_->fail(failure_in(text_in_store(store_->get("failure"))));
  if (own || Clock::now() - since >= watch_times::kPatience) look_for_life(own.has_value());
  if (own && Clock::now() - own->since >= watch_times::kTimeToSayWhy) agree_on(RunFailed(own->text));
}

std::vector<RankPosition> FailureWatch::Talker::positions() {
  std::vector<RankPosition> all;
  for (int peer = 0; peer < size_; ++peer)
    all.push_back(peer == rank_ ? state_->position_now() : position_of(watched_.heartbeat(peer)));
  return all;
}

void FailureWatch::Talker::look_for_deadlock(const std::vector<RankPosition>& all) {
  const auto deadlock = find_deadlock(all);
  if (!deadlock) {
    deadlock_since_.reset();
  } else if (!deadlock_since_) {
    deadlock_since_ = Clock::now();
  } else if (Clock::now() - *deadlock_since_ >= watch_times::kPatience && !store_->check({"failure"})) {
    agree_on(RunFailed(*deadlock));
  }
}

void FailureWatch::Talker::agree_on(const RunFailed& why) {
  const auto first = store_->compareSet("failure", {}, bytes_for_store(to_text(why)));
  state_->fail(failure_in(text_in_store(first)));
}

void FailureWatch::Talker::look_for_life(bool suspicious) {
  if (watches_all()) return judge(quietest_, suspicious);
  const auto now = Clock::now();
  if (last_look_ && now - *last_look_ < watch_times::kHeartbeat) return;
  const std::string found = text_in_store(store_->get(kQuietestKey));
  if (!last_look_ || now - *last_look_ > watch_times::kLongestAway) watched_.begin_anew(now);
  watched_.hear(kWatcher, found, now);
  last_look_ = now;
  // The watcher itself may be dead: then the last entry that it wrote does not change any more.
  const Leaving watcher = leaving_of(found);
  const auto silence = watched_.longest_silence(now)->length;
  judge({kWatcher, std::chrono::duration_cast<milliseconds>(silence), watcher}, suspicious);
  const SilentRank quietest = SilentRank::parse(found);
  if (watcher == Leaving::no && quietest.rank != rank_) judge(quietest, suspicious);
}

void FailureWatch::Talker::judge(const SilentRank& silent, bool suspicious) {
  if (is_lost(silent, peer_timeout_, suspicious)) agree_on(loss_of(silent, rank_, state_->waits_for()));
}

}  // namespace hookline
