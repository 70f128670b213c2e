// Cuts collectives into chunks that fit into a slot, and moves their bytes.
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

/// The part of a collective that is moved at a time.
struct Chunk {
  const Active& of;
  std::uint64_t number, within;  // among all; in its collective
  std::size_t offset, bytes;     // in the array, or in each part
  bool is_direct;                // done once it is read from the others' slots

  const Reduction* reduction() const { return std::get_if<Reduction>(&of.work); }
  const PartExchange& exchange() const { return std::get<PartExchange>(of.work); }
  Tag tag() const;
};

/// Cuts collectives into chunks, and moves a chunk's bytes between this rank's arrays and slots. Nothing here
/// waits: the caller knows when the slots may be read and written.
class Chunks {
 public:
  Chunks(const Seats& seats, int rank)
      : seats_(seats), rank_(rank), ranks_(seats.ranks()), summing_ranks_(ranks_) {}

  /// From now on sums continue over links. The first `links` ranks have one each, and sum everything between
  /// them.
  void share_with_links(int links) {
    summing_ranks_ = links;
    has_links_ = true;
  }

  /// The number of chunks of a collective, at least one.
  std::uint64_t count(const Active& active) const;

  /// The chunk with this number; nothing if no collective has it yet.
  std::optional<Chunk> find(const std::deque<Active>& active, std::uint64_t number) const;

  /// Copies what the others need into this rank's slot.
  void copy(const Chunk& chunk) const;

  /// Reads the slots of all ranks. Of a reduction, sums this rank's part, or everything if the chunk is
  /// direct; of an exchange, takes everything.
  void sum(const Chunk& chunk) const;

  /// For a reduction with links: has_part says whether this rank sums a part of the chunk, piece_of is that
  /// part, in the array, and offer copies its final sum into this rank's slot.
  bool has_part(const Chunk& chunk) const { return part_of(rank_, chunk).bytes > 0; }
  SumLink::Piece piece_of(const Chunk& chunk) const;
  void offer(const Chunk& chunk) const;

  /// Copies the other ranks' sums from those ranks' slots. Does nothing if the chunk is direct.
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
  /// True if the sums of this machine are then summed over the other machines.
  bool goes_on(const Reduction& reduction) const { return has_links_ && !reduction.stays_on_machine; }

  const Seats& seats_;
  int rank_, ranks_;
  int summing_ranks_;  // so many ranks sum, from rank 0 on
  bool has_links_ = false;
};

}  // namespace hookline
