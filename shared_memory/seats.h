// What the ranks of a group keep in the memory that they share.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shared_memory/bell.h"
#include "shared_memory/collectives.h"

namespace hookline {

/// What a rank has put into a slot: every rank must have put the like there.
struct Tag {
  enum class Kind : std::uint32_t { reduction, exchange };
  Kind kind;
  std::uint32_t type;         // of a reduction's elements; of an exchange, whose parts move
  std::uint64_t size, chunk;  // elements of a reduction, bytes of an exchanged part; the chunk within
  PartExchange::Identity identity;
  bool operator==(const Tag&) const = default;
};

enum class Presence : std::uint32_t { absent, here, left, dead };

inline constexpr std::size_t kCacheLine = 64;

/// One rank's. Chunks are counted over all collectives.
struct alignas(kCacheLine) Seat {
  std::atomic<std::uint64_t> copied;  // chunks that lie in its slots
  std::atomic<std::uint64_t>
      summed;  // chunks that it has read from the others' slots, and whose sums lie in its own
  std::atomic<std::uint64_t> taken;  // chunks that it is done with
  std::atomic<Presence> presence;
  alignas(kCacheLine) Bell bell;
  alignas(kCacheLine) pthread_mutex_t life;  // robust; locked as long as a thread of the rank lives
  Tag tags[SharedCollectives::kSlots];
};

/// A segment: a seat for each rank, then each rank's slots.
class Seats {
 public:
  static std::size_t bytes_for(int ranks);
  /// Once, before any rank uses it. Throws Error.
  static void prepare(SharedSegment& segment, int ranks);

  Seats(const SharedSegment& segment, int ranks);

  Seat& operator[](int rank) const { return seats_[rank]; }
  int ranks() const { return ranks_; }

  std::byte* slot(int rank, std::uint64_t chunk) const {
    constexpr std::size_t kSlots = SharedCollectives::kSlots;
    return slots_ +
           (static_cast<std::size_t>(rank) * kSlots + chunk % kSlots) * SharedCollectives::kChunkBytes;
  }

  /// To be called, both, by a thread that lives in between. A rank whose thread ends without leave is dead to the others.
  void take(int rank) const;
  void leave(int rank) const;

  /// Whether a rank that has taken its seat still has it.
  Presence presence(int rank) const;

  /// Wakes whoever waits for `rank`.
  void wake_others(int rank) const;

 private:
  Seat* seats_;
  std::byte* slots_;
  int ranks_;
};

}  // namespace hookline
