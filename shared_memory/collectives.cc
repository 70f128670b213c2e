#include "shared_memory/collectives.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "shared_memory/chunks.h"
#include "shared_memory/seats.h"

namespace hookline {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kOwnBit = std::uint64_t{1}
                                  << SharedCollectives::kMostRanks;  // "this process has something for you"
// How often an idle rank looks for work. Its bell wakes it, but a rank that dies while ringing that bell may
// have silenced it.
constexpr std::chrono::seconds kIdle{1};

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

}  // namespace

/// Shared by the two threads and the SharedCollectives object; destroyed with the last of them.
class SharedCollectives::State {
 public:
  State(std::shared_ptr<SharedSegment> segment, int rank, int ranks, std::chrono::milliseconds timeout)
      : segment_(std::move(segment)),
        rank_(rank),
        ranks_(ranks),
        timeout_(timeout),
        seats_(*segment_, ranks),
        chunks_(seats_, rank) {}

  void join(OtherMachines others) {
    const std::lock_guard lock(mutex_);
    arrived_others_ = std::move(others);
  }

  /// `work`: a Reduction or a PartExchange.
  template <class Work>
  void start(Work work) {
    {
      std::unique_lock lock(mutex_);
      if (has_ended_) {
        lock.unlock();
        return work.done(ended());
      }
      ++unfinished_;
      arrived_.push_back({std::move(work), 0, 0, Clock::now() + timeout_});
    }
    own().bell.ring(kOwnBit);
  }

  void stop() {
    stopping_ = true;
    own().bell.ring(kOwnBit);
  }

  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    return unfinished_ == 0;
  }

  /// The thread that holds `role_` moves chunks until a collective is finished; then it lets the other one
  /// continue.
  void work() {
    while (true) {
      std::vector<Finished> finished;
      {
        const std::lock_guard role(role_);
        finished = move_until_finished();
      }
      if (finished.empty()) return;
      for (Finished& each : finished) {
        each.done(each.error);
        each.done = nullptr;  // release what it holds before the collective counts as finished
        const std::lock_guard lock(mutex_);
        --unfinished_;
      }
    }
  }

  const Seats& seats() const { return seats_; }

 private:
  struct Finished {
    WhenDone done;
    std::exception_ptr error;
  };
  Seat& own() const { return seats_[rank_]; }

  std::optional<Chunk> chunk(std::uint64_t number) const { return chunks_.find(active_, number); }

  /// The first other rank whose counter has not got beyond `chunk`; this rank if there is none.
  int behind(std::atomic<std::uint64_t> Seat::*counter, std::uint64_t chunk) const {
    for (int i = 1; i < ranks_; ++i) {
      const int rank = (rank_ + i) % ranks_;
      if ((seats_[rank].*counter).load() <= chunk) return rank;
    }
    return rank_;
  }

  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    counter.store(value);
    seats_.wake_others(rank_);
  }

  // The stages of a chunk. Each returns true if it completed a chunk. Otherwise it adds the ranks that it
  // waits for to `awaited`.

  bool sum(std::uint64_t& awaited) {
    const auto next = chunk(added_);
    if (!next || added_ >= copied_) return false;
    if (const int rank = behind(&Seat::copied, added_); rank != rank_) {
      awaited |= bit(rank);
      return false;
    }
    expect_alike(*next);
    chunks_.sum(*next);
    ++added_;
    const bool goes_on = others_.link && next->reduction() && !next->reduction()->stays_on_machine &&
                         (chunks_.has_part(*next) || next->within == 0);
    on_link_.push_back(goes_on);
    if (goes_on) send(*next);
    return true;
  }

  /// Sends this rank's part of a chunk to the other machines. Of an array's first chunk, even an empty part
  /// is sent, since the machines then compare their arrays.
  void send(const Chunk& chunk) {
    SumLink::Piece piece = chunks_.piece_of(chunk);
    piece.done = [this](const std::exception_ptr& error) {
      {
        const std::lock_guard lock(mutex_);
        if (error && !link_error_) link_error_ = error;
        if (!link_error_) ++returned_;  // pieces after a failed one do not count
      }
      own().bell.ring(kOwnBit);
    };
    others_.link->start(std::move(piece));
  }

  bool can_publish() const {
    return !broken_ && !on_link_.empty() && (!on_link_.front() || published_links_ < returned_.load());
  }

  /// Publishes the sum of this rank's part, once it has come back from the other machines.
  bool publish_sum() {
    if (!can_publish()) return false;
    if (on_link_.front()) {
      ++published_links_;
      chunks_.offer(*chunk(summed_));
    }
    on_link_.pop_front();
    publish(own().summed, ++summed_);
    return true;
  }

  bool take(std::uint64_t& awaited) {
    const auto next = chunk(taken_);
    if (!next || taken_ >= summed_) return false;
    if (!next->is_direct) {
      if (const int rank = behind(&Seat::summed, taken_); rank != rank_) {
        awaited |= bit(rank);
        return false;
      }
    }
    chunks_.take(*next);
    publish(own().taken, ++taken_);
    return true;
  }

  bool copy(std::uint64_t& awaited) {
    const auto next = chunk(copied_);
    if (!next) return false;
    if (copied_ >= kSlots) {
      // All ranks must be done with the chunk that was in this slot.
      if (taken_ <= copied_ - kSlots) return false;
      if (const int rank = behind(&Seat::taken, copied_ - kSlots); rank != rank_) {
        awaited |= bit(rank);
        return false;
      }
    }
    chunks_.copy(*next);
    own().tags[copied_ % kSlots] = next->tag();
    publish(own().copied, ++copied_);
    return true;
  }

  const Tag& tag(int rank, const Chunk& chunk) const { return seats_[rank].tags[chunk.number % kSlots]; }

  void expect_alike(const Chunk& chunk) const {
    const Tag mine = chunk.tag();
    for (int rank = 0; rank < ranks_; ++rank)
      if (!(tag(rank, chunk) == mine)) throw RanksDiffer(difference(chunk, mine, rank));
  }

  std::string difference(const Chunk& chunk, const Tag& mine, int rank) const {
    const Tag& other = tag(rank, chunk);
    const int first = std::min(rank, rank_), second = std::max(rank, rank_);
    const std::string both = name(first) + " and " + name(second);
    if (other.kind != mine.kind)
      return "the ranks start different collectives: " + name(first) + " " +
             text_of(first == rank ? other : mine) + ", and " + name(second) + " " +
             text_of(second == rank ? other : mine);
    if (mine.kind == Tag::Kind::exchange) {
      std::vector<PartExchange::Identity> identities;
      for (int each = 0; each < ranks_; ++each) identities.push_back(tag(each, chunk).identity);
      if (other.identity != mine.identity) return chunk.exchange().difference(identities);
      if (other.type != mine.type) return "the ranks start different collectives: " + both;
      return "the ranks exchange parts of different sizes: " + both;
    }
    if (other.type != mine.type) return "the ranks sum tensors of different types: " + both;
    const auto size = [&](int of) { return (of == rank ? other : mine).size; };
    return "the ranks sum different tensors: " + count_text(size(first), "element") + " on " + name(first) +
           ", " + std::to_string(size(second)) + " on " + name(second);
  }

  static std::string text_of(const Tag& tag) {
    return tag.kind == Tag::Kind::exchange ? "an exchange of parts of " + count_text(tag.size, "byte")
                                           : "a sum of " + count_text(tag.size, "element");
  }

  std::string name(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return "rank " + std::to_string(index < others_.names.size() ? others_.names[index] : rank);
  }

  static std::exception_ptr ended() {
    return std::make_exception_ptr(PeerError("the process group has ended"));
  }

  void take_arrived() {
    const std::lock_guard lock(mutex_);
    has_ended_ = stopping_;
    if (link_error_ && !broken_) broken_ = link_error_;
    if (arrived_others_) {
      others_ = std::move(*std::exchange(arrived_others_, std::nullopt));
      if (others_.links > 0) chunks_.share_with_links(others_.links);
    }
    for (Active& each : arrived_) {
      each.first = next_chunk_;
      each.chunks = chunks_.count(each);
      next_chunk_ += each.chunks;
      active_.push_back(std::move(each));
    }
    arrived_.clear();
  }

  /// Moves chunks until a collective is finished or all have failed, and returns these; empty once the group
  /// has stopped.
  std::vector<Finished> move_until_finished() {
    while (true) {
      take_arrived();
      if (stopping_ && !broken_) broken_ = ended();
      if (broken_ && (stopping_ || !active_.empty())) return all_failed();
      std::uint64_t awaited = kOwnBit;
      try {
        if (move(awaited)) {
          if (active_.empty() || taken_ < active_.front().first + active_.front().chunks) continue;
          Finished finished{done_of(active_.front()), nullptr};
          active_.pop_front();
          return {std::move(finished)};
        }
        rest(awaited);
      } catch (...) {
        broken_ = std::current_exception();
      }
    }
  }

  /// Copies before it takes: the others can then sum while this rank would wait for them, and sleep less
  /// often.
  bool move(std::uint64_t& awaited) {
    return publish_sum() || sum(awaited) || copy(awaited) || take(awaited);
  }

  static WhenDone done_of(Active& active) {
    return std::visit([](auto& work) { return std::move(work.done); }, active.work);
  }

  std::vector<Finished> all_failed() {
    if (others_.link) others_.link->stop();  // its pieces point into the arrays
    std::vector<Finished> failed;
    for (Active& each : active_) failed.push_back({done_of(each), broken_});
    active_.clear();
    on_link_.clear();
    return failed;
  }

  /// Sleeps until one of the awaited ranks has got further, or this process has more to do.
  void rest(std::uint64_t awaited) {
    const std::uint32_t ticket = own().bell.expect(awaited);
    std::uint64_t now_awaited = kOwnBit;
    const bool has_work = stopping_ || has_news() || can_move(now_awaited);
    if (!has_work && now_awaited == awaited) {
      const auto slept_from = Clock::now();
      own().bell.sleep(ticket, active_.empty() ? std::chrono::nanoseconds(kIdle) : kLookInterval);
      if (Clock::now() - slept_from >= kLookInterval) look_after();
    }
    own().bell.expect_nobody();
  }

  bool has_news() const {
    const std::lock_guard lock(mutex_);
    return !arrived_.empty() || (link_error_ && !broken_);
  }

  /// True if a stage could complete a chunk. Changes nothing but `awaited`, like the stages.
  bool can_move(std::uint64_t& awaited) const {
    const auto ready = [&](std::atomic<std::uint64_t> Seat::*counter, std::uint64_t number) {
      const int rank = behind(counter, number);
      if (rank != rank_) awaited |= bit(rank);
      return rank == rank_;
    };
    if (can_publish()) return true;
    if (chunk(added_) && added_ < copied_ && ready(&Seat::copied, added_)) return true;
    if (const auto next = chunk(taken_);
        next && taken_ < summed_ && (next->is_direct || ready(&Seat::summed, taken_)))
      return true;
    if (!chunk(copied_)) return false;
    if (copied_ < kSlots) return true;
    return taken_ > copied_ - kSlots && ready(&Seat::taken, copied_ - kSlots);
  }

  /// Throws if a rank that this one needs is gone, or if a collective takes too long. Called whenever this
  /// rank has slept for kLookInterval.
  void look_after() {
    if (active_.empty()) return;
    if (Clock::now() >= active_.front().deadline)
      throw PeerError("a collective took longer than " + seconds_text(timeout_));
    std::vector<int> dead, left;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Presence presence = rank == rank_ ? Presence::here : seats_.presence(rank);
      if (presence == Presence::dead) dead.push_back(rank);
      if (presence == Presence::left) left.push_back(rank);
    }
    // Check this after presence: a rank that is gone publishes nothing more.
    std::uint64_t awaited = kOwnBit;
    if (can_move(awaited)) return;
    // The rank that this one waits for may itself wait for a dead rank, or have failed because of it. Then
    // the dead rank is the reason.
    const std::uint64_t end = active_.front().first + active_.front().chunks;
    for (const int rank : dead)
      if (seats_[rank].taken.load() < end) throw PeerError(name(rank) + "'s process has ended");
    for (const int rank : left)
      if ((awaited & bit(rank)) != 0) throw PeerError(name(rank) + " has ended the process group");
  }

  const std::shared_ptr<SharedSegment> segment_;
  const int rank_, ranks_;
  const std::chrono::milliseconds timeout_;
  const Seats seats_;
  Chunks chunks_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> returned_ = 0;  // pieces that have come back over the link

  mutable std::mutex mutex_;  // guards what follows
  bool has_ended_ = false;    // what arrives now is not looked at
  std::vector<Active> arrived_;
  std::size_t unfinished_ = 0;
  std::exception_ptr link_error_;
  std::optional<OtherMachines> arrived_others_;

  std::mutex role_;  // guards the rest
  OtherMachines others_;
  std::deque<Active> active_;
  std::uint64_t next_chunk_ = 0, copied_ = 0, added_ = 0, summed_ = 0, taken_ = 0;
  std::deque<bool> on_link_;           // for each chunk that is summed but not published: was it sent?
  std::uint64_t published_links_ = 0;  // published chunks that were sent over the link
  std::exception_ptr broken_;
};

std::size_t SharedCollectives::bytes_for(int ranks) { return Seats::bytes_for(ranks); }

void SharedCollectives::prepare(SharedSegment& segment, int ranks) { Seats::prepare(segment, ranks); }

SharedCollectives::SharedCollectives(std::shared_ptr<SharedSegment> segment, int rank, int ranks,
                                     std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>(std::move(segment), rank, ranks, timeout)) {
  std::promise<void> seating;
  const std::future<void> seated = seating.get_future();
  threads_[0] = std::thread([state = state_, rank, seating = std::move(seating)]() mutable {
    state->seats().take(rank);
    seating.set_value();
    state->work();
    state->seats().leave(rank);
  });
  seated.wait();
  try {
    threads_[1] = std::thread([state = state_] { state->work(); });
  } catch (...) {
    state_->stop();
    threads_[0].join();
    throw;
  }
}

SharedCollectives::~SharedCollectives() {
  state_->stop();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void SharedCollectives::join(OtherMachines others) { state_->join(std::move(others)); }

void SharedCollectives::start(Reduction reduction) { state_->start(std::move(reduction)); }

void SharedCollectives::start(PartExchange exchange) { state_->start(std::move(exchange)); }

void SharedCollectives::stop() { state_->stop(); }

bool SharedCollectives::is_idle() const { return state_->is_idle(); }

}  // namespace hookline
