#include "shared_memory/chunks.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hookline {
namespace {
constexpr std::size_t kChunkBytes = SharedCollectives::kChunkBytes;

/// The bytes of the array, or of each part of an exchange, that go into a chunk.
std::size_t step_of(const Active& active, int ranks) {
  if (const auto* reduction = std::get_if<Reduction>(&active.work))
    return kChunkBytes / reduction->element_bytes * reduction->element_bytes;
  const auto& exchange = std::get<PartExchange>(active.work);
  if (exchange.sends_same_to_all || exchange.only_from >= 0) return kChunkBytes;
  return kChunkBytes / static_cast<std::size_t>(ranks) / kCacheLine * kCacheLine;  // for each rank
}

/// Where the part of `rank` goes.
std::byte* part_from(int rank, const PartExchange& exchange) {
  const auto index = static_cast<std::size_t>(rank);
  return exchange.received_from.empty()
             ? static_cast<std::byte*>(exchange.received) + index * exchange.part_bytes
             : static_cast<std::byte*>(exchange.received_from[index]);
}

/// A number that ranks compare: whose parts move, and how many each sends.
std::uint32_t form_of(const PartExchange& exchange) {
  if (exchange.only_from >= 0) return static_cast<std::uint32_t>(exchange.only_from) + 2;
  return exchange.sends_same_to_all ? 1 : 0;
}

std::size_t bytes_of(const Active& active) {
  if (const auto* reduction = std::get_if<Reduction>(&active.work))
    return reduction->elements * reduction->element_bytes;
  return std::get<PartExchange>(active.work).part_bytes;
}

}  // namespace

Tag Chunk::tag() const {
  constexpr std::uint32_t kStaysOnMachine = std::uint32_t{1} << 31;
  if (const Reduction* const whole = reduction())
    return {Tag::Kind::reduction,
            whole->type | (whole->stays_on_machine ? kStaysOnMachine : 0),
            whole->elements,
            within,
            {}};
  return {Tag::Kind::exchange, form_of(exchange()), exchange().part_bytes, within, exchange().identity};
}

std::uint64_t Chunks::count(const Active& active) const {
  const std::size_t step = step_of(active, ranks_);
  return std::max<std::size_t>(1, (bytes_of(active) + step - 1) / step);
}

std::optional<Chunk> Chunks::find(const std::deque<Active>& active, std::uint64_t number) const {
  for (const Active& each : active) {
    if (number >= each.first + each.chunks) continue;
    const std::uint64_t within = number - each.first;
    const std::size_t step = step_of(each, ranks_), offset = within * step;
    const std::size_t bytes = std::min(step, bytes_of(each) - offset);
    const auto* const reduction = std::get_if<Reduction>(&each.work);
    const bool is_small = bytes * static_cast<std::size_t>(ranks_) <= SharedCollectives::kDirectBytes;
    return Chunk{each, number, within, offset, bytes, !reduction || (is_small && !goes_on(*reduction))};
  }
  return std::nullopt;
}

void Chunks::copy(const Chunk& chunk) const {
  if (chunk.bytes == 0) return;
  if (chunk.reduction()) {
    copy_addends(chunk);
  } else {
    send(chunk);
  }
}

void Chunks::sum(const Chunk& chunk) const {
  if (chunk.bytes == 0) return;
  if (chunk.reduction()) {
    sum_part(chunk);
  } else {
    receive(chunk);
  }
}

void Chunks::take(const Chunk& chunk) const {
  if (chunk.is_direct || chunk.bytes == 0) return;
  auto* const data = static_cast<std::byte*>(chunk.reduction()->data) + chunk.offset;
  for (int i = 1; i < ranks_; ++i) {
    const int rank = (rank_ + i) % ranks_;
    const Part part = part_of(rank, chunk);
    std::memcpy(data + part.offset, seats_.slot(rank, chunk.number) + part.offset, part.bytes);
  }
}

SumLink::Piece Chunks::piece_of(const Chunk& chunk) const {
  const Reduction& of = *chunk.reduction();
  const Part part = part_of(rank_, chunk);
  SumLink::Piece piece;
  piece.array_elements = of.elements;
  piece.within = chunk.within;
  piece.type = of.type;
  piece.data = static_cast<std::byte*>(of.data) + chunk.offset + part.offset;
  piece.elements = part.elements;
  piece.element_bytes = of.element_bytes;
  piece.sum = of.sum;
  return piece;
}

void Chunks::offer(const Chunk& chunk) const {
  const Part part = part_of(rank_, chunk);
  if (ranks_ == 1 || part.bytes == 0) return;
  std::memcpy(seats_.slot(rank_, chunk.number) + part.offset,
              static_cast<const std::byte*>(chunk.reduction()->data) + chunk.offset + part.offset,
              part.bytes);
}

Chunks::Part Chunks::part_of(int rank, const Chunk& chunk) const {
  const std::size_t element_bytes = chunk.reduction()->element_bytes;
  const auto begin = [&](int of) {
    const int place = std::min(of, summing_ranks_);
    return chunk.bytes / element_bytes * static_cast<std::size_t>(place) /
           static_cast<std::size_t>(summing_ranks_);
  };
  const std::size_t first = begin(rank), count = begin(rank + 1) - first;
  return {first * element_bytes, count, count * element_bytes};
}

void Chunks::copy_addends(const Chunk& chunk) const {
  const auto* const data = static_cast<const std::byte*>(chunk.reduction()->data) + chunk.offset;
  std::byte* const to = seats_.slot(rank_, chunk.number);
  if (chunk.reduction()->is_equal_on_machine) return;
  if (chunk.is_direct) {
    std::memcpy(to, data, chunk.bytes);
    return;
  }
  const Part mine = part_of(rank_, chunk);  // not copied: other ranks read it only once it is summed
  const std::size_t end = mine.offset + mine.bytes;
  std::memcpy(to, data, mine.offset);
  std::memcpy(to + end, data + end, chunk.bytes - end);
}

void Chunks::send(const Chunk& chunk) const {
  const PartExchange& of = chunk.exchange();
  const auto* const sent = static_cast<const std::byte*>(of.sent) + chunk.offset;
  if (of.only_from >= 0) {
    if (of.only_from == rank_) std::memcpy(seats_.slot(rank_, chunk.number), sent, chunk.bytes);
    return;
  }
  const auto part = [&](int rank) {
    return of.sends_same_to_all ? 0 : static_cast<std::size_t>(rank) * of.part_bytes;
  };
  std::byte* const to = seats_.slot(rank_, chunk.number);
  if (of.sends_same_to_all) {
    std::memcpy(to, sent, chunk.bytes);
  } else {
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_)
        std::memcpy(to + static_cast<std::size_t>(rank) * step_of(chunk.of, ranks_), sent + part(rank),
                    chunk.bytes);
  }
  std::byte* const own_part = part_from(rank_, of) + chunk.offset;
  if (own_part != sent + part(rank_)) std::memcpy(own_part, sent + part(rank_), chunk.bytes);
}

void Chunks::sum_part(const Chunk& chunk) const {
  const Reduction& of = *chunk.reduction();
  if (of.is_equal_on_machine || ranks_ == 1) return;
  auto* const data = static_cast<std::byte*>(of.data) + chunk.offset;
  const Part part =
      chunk.is_direct ? Part{0, chunk.bytes / of.element_bytes, chunk.bytes} : part_of(rank_, chunk);
  std::array<const void*, SharedCollectives::kMostRanks> parts;
  for (int rank = 0; rank < ranks_; ++rank)
    parts[static_cast<std::size_t>(rank)] =
        (rank == rank_ ? data : seats_.slot(rank, chunk.number)) + part.offset;
  of.sum(parts.data(), ranks_, data + part.offset, part.elements);
  if (!chunk.is_direct && !goes_on(of))
    std::memcpy(seats_.slot(rank_, chunk.number) + part.offset, data + part.offset, part.bytes);
}

void Chunks::receive(const Chunk& chunk) const {
  const PartExchange& of = chunk.exchange();
  if (of.only_from >= 0) {
    if (of.only_from != rank_)
      std::memcpy(static_cast<std::byte*>(of.received) + chunk.offset,
                  seats_.slot(of.only_from, chunk.number), chunk.bytes);
    return;
  }
  for (int i = 1; i < ranks_; ++i) {
    const int rank = (rank_ + i) % ranks_;
    const std::byte* const from = seats_.slot(rank, chunk.number);
    std::memcpy(
        part_from(rank, of) + chunk.offset,
        of.sends_same_to_all ? from : from + static_cast<std::size_t>(rank_) * step_of(chunk.of, ranks_),
        chunk.bytes);
  }
}

}  // namespace hookline
