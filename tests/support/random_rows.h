// Random data for one rank. Rank threads share torch's default generator and would consume each other's
// numbers.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include <cstdint>

namespace hookline::testing {

/// A float32 tensor [rows, columns], determined by the seed.
inline at::Tensor random_rows(std::int64_t rows, std::int64_t columns, int seed) {
  return at::randn({rows, columns},
                   at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed) + 1));
}

}  // namespace hookline::testing
