#include "shared_memory/all_reduce.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooks/error.h"
#include "shared_memory/bell.h"

namespace hookline {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::size_t kCacheLine = 64;

/// What a rank has put into a slot: every rank must have put the like there.
struct Tag {
  std::uint64_t elements, chunk;  // of the reduction; within it
  std::uint32_t type;
  bool operator==(const Tag&) const = default;
};

enum class Presence : std::uint32_t { absent, here, left, dead };

/// One rank's part of the segment's beginning. Chunks are counted over all reductions.
struct alignas(kCacheLine) Seat {
  std::atomic<std::uint64_t> copied;  // chunks that lie in its slots
  std::atomic<std::uint64_t> summed;  // chunks of which its part's sums do
  std::atomic<std::uint64_t> taken;   // chunks that it is done with
  std::atomic<Presence> presence;
  alignas(kCacheLine) Bell bell;
  alignas(kCacheLine) pthread_mutex_t life;  // locked as long as a thread of the rank lives
  Tag tags[SharedAllReduce::kSlots];
};

std::size_t begin_of_slots(int ranks) {
  constexpr std::size_t kPage = 4096;
  const std::size_t seats = sizeof(Seat) * static_cast<std::size_t>(ranks);
  return (seats + kPage - 1) / kPage * kPage;
}

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }
constexpr std::uint64_t kOwnBit = std::uint64_t{1}
                                  << SharedAllReduce::kMostRanks;  // "this process has something for you"

}  // namespace

/// Shared by the two threads and the object, whichever goes last.
class SharedAllReduce::State {
 public:
  State(std::shared_ptr<SharedSegment> segment, int rank, int ranks, std::chrono::milliseconds timeout)
      : segment_(std::move(segment)),
        rank_(rank),
        ranks_(ranks),
        timeout_(timeout),
        seats_(reinterpret_cast<Seat*>(segment_->data())),
        slots_(segment_->data() + begin_of_slots(ranks)) {}

  void start(Reduction reduction) {
    {
      std::unique_lock lock(mutex_);
      if (has_ended_) {
        lock.unlock();
        return reduction.done(ended());
      }
      ++unfinished_;
      arrived_.push_back({std::move(reduction), 0, 0, Clock::now() + timeout_});
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

  /// The thread that holds `role_` moves chunks until a reduction is finished; then it lets the other one go on.
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
        each.done = nullptr;  // what it holds goes before the reduction counts as finished
        const std::lock_guard lock(mutex_);
        --unfinished_;
      }
    }
  }

  /// Of the thread that lives as long as the group.
  void take_seat() {
    ::pthread_mutex_lock(&own().life);
    own().presence = Presence::here;
  }

  void leave_seat() {
    own().presence = Presence::left;
    ::pthread_mutex_unlock(&own().life);
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_) seats_[rank].bell.ring(bit(rank_));
  }

 private:
  struct Active {
    Reduction reduction;
    std::uint64_t first = 0, chunks = 0;  // of all chunks
    Clock::time_point deadline;
  };
  struct Finished {
    std::function<void(std::exception_ptr)> done;
    std::exception_ptr error;
  };
  /// A chunk of a reduction.
  struct Chunk {
    const Reduction& of;
    std::uint64_t number, within;  // among all; in its reduction
    std::byte* data;
    std::size_t elements;
    bool is_direct;

    std::size_t bytes() const { return elements * of.element_bytes; }
  };
  /// What one rank sums of a chunk.
  struct Part {
    std::size_t offset, elements, bytes;  // offset in bytes
  };

  Seat& own() { return seats_[rank_]; }

  std::byte* slot(int rank, std::uint64_t chunk) const {
    return slots_ + (static_cast<std::size_t>(rank) * kSlots + chunk % kSlots) * kChunkBytes;
  }

  Part part_of(int rank, const Chunk& chunk) const {
    const auto begin = [&](int of) {
      return chunk.elements * static_cast<std::size_t>(of) / static_cast<std::size_t>(ranks_);
    };
    const std::size_t first = begin(rank), count = begin(rank + 1) - first;
    return {first * chunk.of.element_bytes, count, count * chunk.of.element_bytes};
  }

  /// The chunk of this number; null if no reduction has it yet.
  std::optional<Chunk> chunk(std::uint64_t number) const {
    for (const Active& each : active_) {
      if (number >= each.first + each.chunks) continue;
      const Reduction& of = each.reduction;
      const std::size_t within = number - each.first, step = kChunkBytes / of.element_bytes;
      const std::size_t elements = std::min(step, of.elements - within * step);
      return Chunk{of,       number,
                   within,   static_cast<std::byte*>(of.data) + within * step * of.element_bytes,
                   elements, elements * of.element_bytes <= kDirectBytes};
    }
    return std::nullopt;
  }

  /// The first rank but this one that has not got beyond `chunk`; this one if all have.
  int behind(std::atomic<std::uint64_t> Seat::*counter, std::uint64_t chunk) const {
    for (int i = 1; i < ranks_; ++i) {
      const int rank = (rank_ + i) % ranks_;
      if ((seats_[rank].*counter).load() <= chunk) return rank;
    }
    return rank_;
  }

  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    counter.store(value);
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_) seats_[rank].bell.ring(bit(rank_));
  }

  // The stages of a chunk. Each returns true if it got a chunk further, and else adds whom it waits for to `awaited`.

  bool sum(std::uint64_t& awaited) {
    const auto next = chunk(summed_);
    if (!next || summed_ >= copied_) return false;
    if (const int rank = behind(&Seat::copied, summed_); rank != rank_) {
      awaited |= bit(rank);
      return false;
    }
    expect_alike(*next);
    const Part part = next->is_direct ? Part{0, next->elements, next->bytes()} : part_of(rank_, *next);
    std::array<const void*, kMostRanks> parts;
    for (int rank = 0; rank < ranks_; ++rank)
      parts[static_cast<std::size_t>(rank)] =
          (rank == rank_ ? next->data : slot(rank, summed_)) + part.offset;
    next->of.sum(parts.data(), ranks_, next->data + part.offset, part.elements);
    if (!next->is_direct)
      std::memcpy(slot(rank_, summed_) + part.offset, next->data + part.offset, part.bytes);
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
      for (int i = 1; i < ranks_; ++i) {
        const int rank = (rank_ + i) % ranks_;
        const Part part = part_of(rank, *next);
        std::memcpy(next->data + part.offset, slot(rank, taken_) + part.offset, part.bytes);
      }
    }
    publish(own().taken, ++taken_);
    return true;
  }

  bool copy(std::uint64_t& awaited) {
    const auto next = chunk(copied_);
    if (!next) return false;
    if (copied_ >= kSlots) {
      // What lay in the slot must have been summed and taken by all.
      if (taken_ <= copied_ - kSlots) return false;
      if (const int rank = behind(&Seat::taken, copied_ - kSlots); rank != rank_) {
        awaited |= bit(rank);
        return false;
      }
    }
    std::byte* const to = slot(rank_, copied_);
    if (next->is_direct) {
      std::memcpy(to, next->data, next->bytes());
    } else {
      const Part mine = part_of(rank_, *next);  // which no other rank reads before it is summed
      const std::size_t end = mine.offset + mine.bytes;
      std::memcpy(to, next->data, mine.offset);
      std::memcpy(to + end, next->data + end, next->bytes() - end);
    }
    own().tags[copied_ % kSlots] = tag_of(*next);
    publish(own().copied, ++copied_);
    return true;
  }

  static Tag tag_of(const Chunk& chunk) { return {chunk.of.elements, chunk.within, chunk.of.type}; }

  void expect_alike(const Chunk& chunk) const {
    const Tag mine = tag_of(chunk);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Tag& other = seats_[rank].tags[chunk.number % kSlots];
      if (other == mine) continue;
      const int first = std::min(rank, rank_), second = std::max(rank, rank_);
      const auto name = [](int of) { return "rank " + std::to_string(of); };
      const auto size = [&](int of) {
        return name(of) + " one of " + std::to_string((of == rank ? other : mine).elements) + " elements";
      };
      throw RanksDiffer(other.type != mine.type
                            ? "the ranks sum tensors of different types: " + name(first) + " and " +
                                  name(second)
                            : "the ranks sum different tensors: " + size(first) + ", " + size(second));
    }
  }

  static std::exception_ptr ended() {
    return std::make_exception_ptr(PeerError("the process group has ended"));
  }

  void take_arrived() {
    const std::lock_guard lock(mutex_);
    has_ended_ = stopping_;
    for (Active& each : arrived_) {
      const std::size_t step = kChunkBytes / each.reduction.element_bytes;
      each.first = next_chunk_;
      each.chunks = std::max<std::size_t>(1, (each.reduction.elements + step - 1) / step);
      next_chunk_ += each.chunks;
      active_.push_back(std::move(each));
    }
    arrived_.clear();
  }

  /// Empty once the group stops.
  std::vector<Finished> move_until_finished() {
    while (true) {
      take_arrived();
      if (stopping_ && !broken_) broken_ = ended();
      if (broken_ && (stopping_ || !active_.empty())) return all_failed();
      std::uint64_t awaited = kOwnBit;
      try {
        if (move(awaited)) {
          if (active_.empty() || taken_ < active_.front().first + active_.front().chunks) continue;
          Finished finished{std::move(active_.front().reduction.done), nullptr};
          active_.pop_front();
          return {std::move(finished)};
        }
        rest(awaited);
      } catch (...) {
        broken_ = std::current_exception();
      }
    }
  }

  bool move(std::uint64_t& awaited) { return sum(awaited) || take(awaited) || copy(awaited); }

  std::vector<Finished> all_failed() {
    std::vector<Finished> failed;
    for (Active& each : active_) failed.push_back({std::move(each.reduction.done), broken_});
    active_.clear();
    return failed;
  }

  /// Sleeps until one of the awaited ranks has got further, or this process has more to do.
  void rest(std::uint64_t awaited) {
    const std::uint32_t ticket = own().bell.expect(awaited);
    std::uint64_t now_awaited = kOwnBit;
    const bool has_work = stopping_ || has_arrived() || can_move(now_awaited);
    if (!has_work && now_awaited == awaited) {
      const auto slept_from = Clock::now();
      own().bell.sleep(ticket, kLookInterval);
      if (Clock::now() - slept_from >= kLookInterval) look_after(awaited);
    }
    own().bell.expect_nobody();
  }

  bool has_arrived() const {
    const std::lock_guard lock(mutex_);
    return !arrived_.empty();
  }

  /// As the stages find it, without doing anything.
  bool can_move(std::uint64_t& awaited) const {
    const auto ready = [&](std::atomic<std::uint64_t> Seat::*counter, std::uint64_t number) {
      const int rank = behind(counter, number);
      if (rank != rank_) awaited |= bit(rank);
      return rank == rank_;
    };
    if (chunk(summed_) && summed_ < copied_ && ready(&Seat::copied, summed_)) return true;
    if (const auto next = chunk(taken_);
        next && taken_ < summed_ && (next->is_direct || ready(&Seat::summed, taken_)))
      return true;
    if (!chunk(copied_)) return false;
    if (copied_ < kSlots) return true;
    return taken_ > copied_ - kSlots && ready(&Seat::taken, copied_ - kSlots);
  }

  /// Throws if a rank that is waited for will not come.
  void look_after(std::uint64_t awaited) {
    if (!active_.empty() && Clock::now() >= active_.front().deadline)
      throw PeerError("the sum over the ranks of this machine took longer than " +
                      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout_).count()) +
                      " s");
    for (int rank = 0; rank < ranks_; ++rank) {
      if ((awaited & bit(rank)) == 0) continue;
      std::uint64_t now_awaited = kOwnBit;
      const Presence presence = presence_of(rank);
      if (presence == Presence::here || can_move(now_awaited) || (now_awaited & bit(rank)) == 0) continue;
      throw PeerError("rank " + std::to_string(rank) +
                      (presence == Presence::dead ? "'s process has ended" : " has ended the process group"));
    }
  }

  Presence presence_of(int rank) {
    Seat& seat = seats_[rank];
    const Presence said = seat.presence.load();
    if (said != Presence::here) return said == Presence::absent ? Presence::here : said;
    // The kernel marks the mutex of a thread that is gone.
    const int result = ::pthread_mutex_trylock(&seat.life);
    if (result == EBUSY) return Presence::here;
    if (result == 0) {
      ::pthread_mutex_unlock(&seat.life);
      return Presence::here;  // it is leaving, and says so in a moment
    }
    seat.presence = Presence::dead;
    if (result == EOWNERDEAD)
      ::pthread_mutex_unlock(&seat.life);  // for good: whoever asks next hears of it too
    return Presence::dead;
  }

  const std::shared_ptr<SharedSegment> segment_;
  const int rank_, ranks_;
  const std::chrono::milliseconds timeout_;
  Seat* const seats_;
  std::byte* const slots_;
  std::atomic<bool> stopping_ = false;

  mutable std::mutex mutex_;  // guards arrived_, unfinished_, has_ended_
  bool has_ended_ = false;    // nobody looks at what arrives any more
  std::vector<Active> arrived_;
  std::size_t unfinished_ = 0;

  std::mutex role_;  // guards the rest
  std::deque<Active> active_;
  std::uint64_t next_chunk_ = 0, copied_ = 0, summed_ = 0, taken_ = 0;
  std::exception_ptr broken_;
};

std::size_t SharedAllReduce::bytes_for(int ranks) {
  return begin_of_slots(ranks) + static_cast<std::size_t>(ranks) * kSlots * kChunkBytes;
}

void SharedAllReduce::prepare(SharedSegment& segment, int ranks) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  int problem = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Seat* const seat = new (segment.data() + sizeof(Seat) * static_cast<std::size_t>(rank)) Seat{};
    problem = std::max(problem, ::pthread_mutex_init(&seat->life, &attributes));
  }
  ::pthread_mutexattr_destroy(&attributes);
  if (problem != 0) throw Error(std::string("a mutex in shared memory: ") + std::strerror(problem));
}

SharedAllReduce::SharedAllReduce(std::shared_ptr<SharedSegment> segment, int rank, int ranks,
                                 std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>(std::move(segment), rank, ranks, timeout)) {
  std::promise<void> seating;
  const std::future<void> seated = seating.get_future();
  threads_[0] = std::thread([state = state_, seating = std::move(seating)]() mutable {
    state->take_seat();
    seating.set_value();
    state->work();
    state->leave_seat();
  });
  seated.wait();
  threads_[1] = std::thread([state = state_] { state->work(); });
}

SharedAllReduce::~SharedAllReduce() {
  state_->stop();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void SharedAllReduce::start(Reduction reduction) { state_->start(std::move(reduction)); }

void SharedAllReduce::stop() { state_->stop(); }

bool SharedAllReduce::is_idle() const { return state_->is_idle(); }

}  // namespace hookline
