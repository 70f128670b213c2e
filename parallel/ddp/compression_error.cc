#include "parallel/ddp/compression_error.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hookline {
namespace {

at::Tensor part_of(const at::Tensor& whole, std::int64_t stride) {
  return whole.slice(0, 0, whole.numel(), stride);
}

}  // namespace

CompressionError::CompressionError(std::shared_ptr<Comm> comm, Watch watch)
    : comm_(std::move(comm)), watch_(std::move(watch)) {}

FuturePtr CompressionError::run(const c10d::GradBucket& bucket, const std::function<FuturePtr()>& run_hook) {
  const at::Tensor& gradients = bucket.getBuffer();
  const auto sample = std::make_shared<Sample>();
  // The stride is odd: an even one may be a multiple of a matrix's width, and would sample a single column.
  sample->stride = ((gradients.numel() + kMostElements - 1) / kMostElements) | 1;
  sample->exact =
      comm_->all_reduce(part_of(gradients, sample->stride).to(at::kFloat).div(comm_->world_size()));
  {
    const std::lock_guard lock(mutex_);
    if (bucket.getIndex() == 0) samples_.clear();
    samples_.push_back(sample);
    is_whole_ = bucket.isLast();
  }
  return then(run_hook(), [sample](const at::Tensor& averaged) {
    sample->averaged = part_of(averaged.view(-1), sample->stride).clone();
    sample->has_averaged = true;
    return averaged;
  });
}

std::optional<double> CompressionError::take() {
  std::vector<std::shared_ptr<Sample>> samples;
  {
    const std::lock_guard lock(mutex_);
    if (!is_whole_ || !std::all_of(samples_.begin(), samples_.end(),
                                   [](const auto& sample) { return sample->has_averaged.load(); }))
      return std::nullopt;
    samples = std::exchange(samples_, {});
  }
  double difference = 0, whole = 0;
  for (const std::shared_ptr<Sample>& sample : samples) {
    const FuturePtr exact = watch_ ? watch_(sample->exact) : sample->exact;
    exact->waitAndThrow();
    const at::Tensor right = tensor_of(*exact).to(at::kDouble);
    difference += (sample->averaged.to(at::kDouble) - right).square().sum().item<double>();
    whole += right.square().sum().item<double>();
  }
  return whole > 0 ? std::optional(std::sqrt(difference / whole)) : std::nullopt;
}

}  // namespace hookline
