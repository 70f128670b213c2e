// How far torch's random numbers on the CPU have been drawn.
#pragma once

#include <cstdint>

namespace hookline {

/// Of the default generator. It differs after any draw, unless that was of exactly as many numbers as the
/// generator makes at a time (624) and their first one repeats.
struct RandomPosition {
  std::uint64_t seed = 0;
  std::uint32_t next = 0;   // of the numbers that are made at a time
  std::uint32_t first = 0;  // of them
  bool operator==(const RandomPosition&) const = default;
};
RandomPosition random_position();

}  // namespace hookline
