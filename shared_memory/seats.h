// What the ranks of a group keep in the memory that they share.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shared_memory/bell.h"
#include "shared_memory/collectives.h"

namespace hookline {

/// Describes what a rank has put into a slot. For one chunk, the tags of all ranks must be equal.
struct Tag {
  enum class Kind : std::uint32_t { reduction, exchange };
  Kind kind;
  std::uint32_t type;         // element type of a reduction; form of an exchange
  std::uint64_t size, chunk;  // elements, or bytes of a part; chunk within the collective
  PartExchange::Identity identity;
  bool operator==(const Tag&) const = default;
};

enum class Presence : std::uint32_t { absent, here, left, dead };

inline constexpr std::size_t kCacheLine = 64;

/// The state of one rank. Chunks are counted over all collectives.
struct alignas(kCacheLine) Seat {
  std::atomic<std::uint64_t> copied;  // chunks that it has copied into its slots
  std::atomic<std::uint64_t>
      summed;  // chunks that it has read from the others' slots, and whose sums lie in its own
  std::atomic<std::uint64_t> taken;  // chunks that it is done with
  std::atomic<Presence> presence;
  alignas(kCacheLine) Bell bell;
  alignas(kCacheLine) pthread_mutex_t life;  // a robust mutex, locked while the rank's thread lives
  Tag tags[SharedCollectives::kSlots];
};

/// A segment: a seat for each rank, then each rank's slots.
class Seats {
 public:
  static std::size_t bytes_for(int ranks);
  /// Prepares a new segment, once, before any rank uses it. Throws Error.
  static void prepare(SharedSegment& segment, int ranks);

  Seats(const SharedSegment& segment, int ranks);

  Seat& operator[](int rank) const { return seats_[rank]; }
  int ranks() const { return ranks_; }

  std::byte* slot(int rank, std::uint64_t chunk) const {
    constexpr std::size_t kSlots = SharedCollectives::kSlots;
    return slots_ +
           (static_cast<std::size_t>(rank) * kSlots + chunk % kSlots) * SharedCollectives::kChunkBytes;
  }

  /// Both are called by one thread, which must live in between: if it ends without leave, the others consider
  /// the rank dead.
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
