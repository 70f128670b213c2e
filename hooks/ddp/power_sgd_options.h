// The options of both PowerSGD hooks, and the stream of random seeds that they draw from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <vector>

#include "hooks/catalog/option.h"
#include "hooks/numerics/bucket_parts.h"

namespace hookline {

/// As PowerSGDState spells and means them.
struct PowerSgdOptions {
  std::int64_t matrix_approximation_rank = 1;
  std::int64_t start_powerSGD_iter = 1000;
  double min_compression_rate = 2;
  bool use_error_feedback = true;
  bool warm_start = true;
  double orthogonalization_epsilon = 0;
  std::int64_t random_seed = 0;
  std::int64_t compression_stats_logging_frequency = 10000;
  bool batch_tensors_with_same_shape = false;

  /// From a checked map; options that `map` lacks keep their defaults.
  static PowerSgdOptions from(const OptionMap& map);
};

/// The seeds that numpy.random.RandomState(seed).randint(1_000_000_000) draws, from which PyTorch seeds the
/// random start of Q: the 32-bit Mersenne Twister, masked to 30 bits, values above 999,999,999 rejected.
class SeedStream {
 public:
  explicit SeedStream(std::int64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}
  std::uint64_t next();

  /// How often next() was called.
  std::int64_t drawn() const { return drawn_; }

 private:
  std::mt19937 engine_;
  std::int64_t drawn_ = 0;
};

/// What torch.randn(shape) draws on the CPU after manual_seed: one generator serves several tensors.
class NormalStream {
 public:
  explicit NormalStream(std::uint64_t seed);
  at::Tensor draw(at::IntArrayRef shape, at::ScalarType dtype);

 private:
  at::Generator generator_;
};

/// Orthogonalizes the factors in `q`. A vector that depends on others, or is zero as after a zero gradient,
/// is redrawn from its factor's seed, identically on every rank: a zero vector in Q would stay zero forever.
void orthogonalize_start(const at::Tensor& q, const Factors& factors, double epsilon,
                         const std::vector<std::uint64_t>& redraw_seeds);

}  // namespace hookline
