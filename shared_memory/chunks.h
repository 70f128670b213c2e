// Collectives in pieces that fit into a slot, and what is done with a piece.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>

#include "shared_memory/seats.h"

namespace hookline {

/// A collective that is under way on this rank.
struct Active {
  std::variant<Reduction, PartExchange> work;
  std::uint64_t first = 0, chunks = 0;  // among all chunks of the group
  std::chrono::steady_clock::time_point deadline;
};

/// What moves at a time.
struct Chunk {
  const Active& of;
  std::uint64_t number, within;  // among all; in its collective
  std::size_t offset, bytes;     // in the array, or in each part
  bool is_direct;                // done when it is read from the others' slots

  const Reduction* reduction() const { return std::get_if<Reduction>(&of.work); }
  const PartExchange& exchange() const { return std::get<PartExchange>(of.work); }
  Tag tag() const;
};

/// Cuts collectives into chunks, and moves a chunk's bytes between this rank's arrays and slots. Nothing here waits: the caller knows
/// when the slots may be read and written.
class Chunks {
 public:
  Chunks(const Seats& seats, int rank)
      : seats_(seats), rank_(rank), ranks_(seats.ranks()), summing_ranks_(ranks_) {}

  /// Sums go on over links, which the first `links` ranks have: they sum everything between them.
  void share_with_links(int links) {
    summing_ranks_ = links;
    has_links_ = true;
  }

  /// How many chunks a collective has, one at least.
  std::uint64_t count(const Active& active) const;

  /// The chunk of this number; nothing if no collective has it yet.
  std::optional<Chunk> find(const std::deque<Active>& active, std::uint64_t number) const;

  /// Into this rank's slot: what the others need.
  void copy(const Chunk& chunk) const;

  /// From the slots of all: of a reduction the sum of this rank's part, or of all if it is direct; of an exchange all there is.
  void sum(const Chunk& chunk) const;

  /// Of a reduction with links: whether this rank sums a part of the chunk; that part, in the array; and, into the slot, what
  /// has become of it.
  bool has_part(const Chunk& chunk) const { return part_of(rank_, chunk).bytes > 0; }
  SumLink::Piece piece_of(const Chunk& chunk) const;
  void offer(const Chunk& chunk) const;

  /// From the slots of all: what the others have summed. Nothing if the chunk is direct.
  void take(const Chunk& chunk) const;

 private:
  /// What one rank sums of a chunk.
  struct Part {
    std::size_t offset, elements, bytes;  // offset in bytes, within the chunk
  };
  Part part_of(int rank, const Chunk& chunk) const;
  void copy_addends(const Chunk& chunk) const;
  void send(const Chunk& chunk) const;
  void sum_part(const Chunk& chunk) const;
  void receive(const Chunk& chunk) const;
  /// What this machine has summed is summed over the others too.
  bool goes_on(const Reduction& reduction) const { return has_links_ && !reduction.stays_on_machine; }

  const Seats& seats_;
  int rank_, ranks_;
  int summing_ranks_;  // the first of them
  bool has_links_ = false;
};

}  // namespace hookline
