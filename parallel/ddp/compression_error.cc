#include "parallel/ddp/compression_error.h"

#include <ATen/ATen.h>

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

std::shared_ptr<CompressionError::Sample> CompressionError::sample(const at::Tensor& bucket, bool is_first) {
  if (is_first) samples_.clear();
  auto sample = std::make_shared<Sample>();
  // The stride is odd: an even one may be a multiple of a matrix's width, and would sample a single column.
  sample->stride = ((bucket.numel() + kMostElements - 1) / kMostElements) | 1;
  sample->exact = comm_->all_reduce(part_of(bucket, sample->stride).to(at::kFloat).div(comm_->world_size()));
  samples_.push_back(sample);
  return sample;
}

FuturePtr CompressionError::taken(const FuturePtr& result, std::shared_ptr<Sample> sample) {
  return then(result, [sample = std::move(sample)](const at::Tensor& averaged) {
    sample->averaged = part_of(averaged.view(-1), sample->stride).clone();
    return averaged;
  });
}

std::optional<double> CompressionError::take() {
  double difference = 0, whole = 0;
  for (const std::shared_ptr<Sample>& sample : std::exchange(samples_, {})) {
    const FuturePtr exact = watch_ ? watch_(sample->exact) : sample->exact;
    exact->waitAndThrow();
    if (!sample->averaged.defined()) continue;  // the hook failed
    const at::Tensor right = tensor_of(*exact).to(at::kDouble);
    difference += (sample->averaged.to(at::kDouble) - right).square().sum().item<double>();
    whole += right.square().sum().item<double>();
  }
  return whole > 0 ? std::optional(std::sqrt(difference / whole)) : std::nullopt;
}

}  // namespace hookline
