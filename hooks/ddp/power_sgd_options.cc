#include "hooks/ddp/power_sgd_options.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include "hooks/numerics/cuda_kernels.h"
#include "hooks/numerics/low_rank.h"

namespace hookline {
namespace {

template <typename T>
void take(const OptionMap& map, const char* name, T& value) {
  const auto found = map.find(name);
  if (found != map.end()) value = std::get<T>(found->second);
}

}  // namespace

PowerSgdOptions PowerSgdOptions::from(const OptionMap& map) {
  PowerSgdOptions options;
  take(map, "matrix_approximation_rank", options.matrix_approximation_rank);
  take(map, "start_powerSGD_iter", options.start_powerSGD_iter);
  take(map, "min_compression_rate", options.min_compression_rate);
  take(map, "use_error_feedback", options.use_error_feedback);
  take(map, "warm_start", options.warm_start);
  take(map, "orthogonalization_epsilon", options.orthogonalization_epsilon);
  take(map, "random_seed", options.random_seed);
  take(map, "compression_stats_logging_frequency", options.compression_stats_logging_frequency);
  take(map, "batch_tensors_with_same_shape", options.batch_tensors_with_same_shape);
  return options;
}

std::uint64_t SeedStream::next() {
  constexpr std::uint32_t kMask = 0x3FFFFFFF, kLargest = 999'999'999;
  ++drawn_;
  std::uint32_t value = engine_() & kMask;
  while (value > kLargest) value = engine_() & kMask;
  return value;
}

NormalStream::NormalStream(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor NormalStream::draw(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::randn(shape, generator_, at::TensorOptions().dtype(dtype));
}

void orthogonalize_start(const at::Tensor& q, const Factors& factors, double epsilon,
                         const std::vector<std::uint64_t>& redraw_seeds) {
  if (q.is_cuda()) return cuda_kernels().orthogonalize(q, factors, epsilon, redraw_seeds);
  const std::vector<DependentVector> dependent = orthogonalize(q, factors, epsilon);
  for (auto next = dependent.begin(); next != dependent.end();) {
    const std::size_t i = next->factor;
    const Factor& f = factors[i];
    NormalStream redraw(redraw_seeds[i]);
    for (; next != dependent.end() && next->factor == i; ++next) {
      q.narrow(0, f.offset + next->vector * f.length, f.length)
          .copy_(redraw.draw({f.length}, q.scalar_type()));
    }
    orthogonalize(q, {f}, epsilon);
  }
}

}  // namespace hookline
