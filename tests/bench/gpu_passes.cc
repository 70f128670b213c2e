// Times each pass of PowerSGD over a bucket on a GPU, and a copy within GPU memory for comparison. Run by
// bench.py:
//
//     gpu_passes
//
// Measures a bucket with one matrix of 8192 × 8192 and one with 64 matrices of 1024 × 1024: 268 MB in
// float32, more than a GPU's cache. Prints a table row per pass: the median time, and the GB/s at which it
// reads and writes the bucket and PowerSGD's error.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "hooks/numerics/low_rank.h"
#include "parallel/world/placement.h"

namespace {

using hookline::CompressedMatrix;

constexpr int kRounds = 9, kCallsOfARound = 10;

/// The time of a call in milliseconds: the median over rounds, each of which makes several calls and waits
/// for the GPU.
double milliseconds(c10::Device device, const std::function<void()>& call) {
  const c10::impl::VirtualGuardImpl gpu(device.type());
  std::vector<double> times;
  for (int round = 0; round <= kRounds; ++round) {
    gpu.synchronizeDevice(device.index());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCallsOfARound; ++i) call();
    gpu.synchronizeDevice(device.index());
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (round > 0) times.push_back(time.count() / kCallsOfARound);  // the first warms up
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

struct Shape {
  std::int64_t count, n, m;
};

void measure(c10::Device device, const Shape& shape, c10::ScalarType dtype, std::int64_t rank) {
  const auto options = c10::TensorOptions(device).dtype(dtype);
  const std::int64_t size = shape.n * shape.m, numel = shape.count * size;
  hookline::Matrices matrices;
  hookline::Factors p_factors;
  for (std::int64_t i = 0; i < shape.count; ++i) {
    matrices.push_back({i * size, shape.n, shape.m, rank, i * rank * shape.n, i * rank * shape.m});
    p_factors.push_back({i * rank * shape.n, rank, shape.n});
  }
  const at::Tensor bucket = at::randn({numel}, options), sum = at::randn({numel}, options);
  const hookline::FactorPair before{at::randn({shape.count * rank * shape.n}, options),
                                    at::randn({shape.count * rank * shape.m}, options)};
  const hookline::FactorPair now{at::empty_like(before.p),
                                 at::randn({shape.count * rank * shape.m}, options)};
  const at::Tensor no_bucket;
  const double megabytes = static_cast<double>(numel * bucket.element_size()) / 1e6;
  const auto row = [&](const char* pass, double sweeps, const std::function<void()>& call) {
    const double time = milliseconds(device, call);
    if (sweeps > 0)
      std::printf("| %lld of %lld × %lld, %s, rank %lld | %s | %.3f | %.0f |\n",
                  static_cast<long long>(shape.count), static_cast<long long>(shape.n),
                  static_cast<long long>(shape.m), c10::toString(dtype), static_cast<long long>(rank), pass,
                  time, sweeps * megabytes / time);
    else
      std::printf("| %lld of %lld × %lld, %s, rank %lld | %s | %.3f | |\n",
                  static_cast<long long>(shape.count), static_cast<long long>(shape.n),
                  static_cast<long long>(shape.m), c10::toString(dtype), static_cast<long long>(rank), pass,
                  time);
    std::fflush(stdout);
  };
  row("copy", 2, [&] { sum.copy_(bucket); });
  row("error formed, gradients added", 3, [&] { accumulate(matrices, sum, before, bucket); });
  row("P", 1, [&] { accumulate_and_multiply(matrices, sum, {}, no_bucket, now); });
  row("Q", 1, [&] { multiply_transposed(matrices, sum, now); });
  row("gradients rebuilt", 1, [&] { reconstruct(matrices, before, bucket); });
  row("P made orthonormal", 0, [&] { hookline::orthogonalize(now.p, p_factors, 0); });
}

}  // namespace

int main() try {
  hookline::LaunchConfig config;
  config.device = "cuda";
  config.backend = "gloo";
  const c10::Device device = hookline::place_rank(config, 0, 1).device;
  std::puts("| matrices | pass | ms | GB/s |\n|---|---|---|---|");
  for (const Shape& shape : {Shape{1, 8192, 8192}, Shape{64, 1024, 1024}})
    for (const std::int64_t rank : {1, 4}) measure(device, shape, at::kFloat, rank);
  measure(device, {1, 8192, 8192}, at::kHalf, 4);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
