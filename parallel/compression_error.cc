#include "parallel/compression_error.h"

#include <ATen/ATen.h>

#include <cmath>
#include <mutex>
#include <utility>

namespace hookline {

/// Of squares, over the buckets of a step.
struct CompressionError::Sample::Sums {
  std::mutex mutex;
  double difference = 0, exact = 0;
};

CompressionError::Sample CompressionError::sample(const at::Tensor& bucket, bool is_first) {
  if (!comm_) {
    comm_ = std::make_unique<Comm>(world_->rank(), world_->size(), [world = world_](const std::string& name) {
      return world->make_stage_group("compression-error-" + name);
    });
  }
  if (is_first || !sums_) sums_ = std::make_shared<Sample::Sums>();
  Sample sample;
  sample.sums_ = sums_;
  // Odd, lest it be a multiple of the width of a matrix, most of which are even: that would be one column's.
  sample.stride_ = ((bucket.numel() + kMostElements - 1) / kMostElements) | 1;
  sample.exact_ = comm_->all_reduce(sample.of(bucket).to(at::kFloat).div(world_->size()));
  return sample;
}

FuturePtr CompressionError::Sample::compared(const FuturePtr& result) const {
  return then_start(result, [sample = *this](const at::Tensor& averaged) {
    // Whoever gets the result may change it.
    const at::Tensor mine =
        sample.of(averaged.view(-1)).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    return then(sample.exact_, [sample, averaged, mine](const at::Tensor& exact) {
      const at::Tensor right = exact.to(at::kDouble);
      const double difference = (mine - right).square().sum().item<double>();
      const double whole = right.square().sum().item<double>();
      const std::lock_guard lock(sample.sums_->mutex);
      sample.sums_->difference += difference;
      sample.sums_->exact += whole;
      return averaged;
    });
  });
}

std::optional<double> CompressionError::take() {
  const std::shared_ptr<Sample::Sums> sums = std::exchange(sums_, nullptr);
  if (!sums) return std::nullopt;
  const std::lock_guard lock(sums->mutex);
  return sums->exact > 0 ? std::optional(std::sqrt(sums->difference / sums->exact)) : std::nullopt;
}

}  // namespace hookline
