#include "parallel/ddp/bucketing.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>

namespace hookline {

BucketLimits BucketLimits::from(std::optional<std::int64_t> bucket_cap_mb) {
  if (!bucket_cap_mb) return {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
  const std::int64_t bytes = *bucket_cap_mb * 1024 * 1024;
  return {bytes, bytes};
}

std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<at::Tensor>& parameters,
                                                     const std::vector<std::size_t>& limits) {
  const std::vector<bool> dense(parameters.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, limits, dense));
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

std::vector<BucketShapes> expected_buckets(const std::vector<at::Tensor>& parameters,
                                           const BucketLimits& limits) {
  // The Reducer rebuilds its buckets in the order in which gradients became ready.
  const std::vector<at::Tensor> ready(parameters.rbegin(), parameters.rend());
  const std::vector<std::size_t> sizes{static_cast<std::size_t>(limits.first_bytes),
                                       static_cast<std::size_t>(limits.cap_bytes)};
  std::vector<BucketShapes> shapes;
  for (const auto& bucket : assign_buckets(ready, sizes)) {
    BucketShapes& of_bucket = shapes.emplace_back();
    for (const std::size_t index : bucket) of_bucket.push_back(ready[index].sizes().vec());
  }
  return shapes;
}

BucketParameters cut_into_buckets(const std::vector<at::Tensor>& order, const BucketLimits& limits) {
  const std::vector<std::size_t> sizes{static_cast<std::size_t>(limits.first_bytes),
                                       static_cast<std::size_t>(limits.cap_bytes)};
  std::vector<std::int64_t> numbers(order.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<bool> dense(order.size(), false);
  const auto assigned = c10d::compute_bucket_assignment_by_size(order, sizes, dense, numbers);
  BucketParameters buckets;
  for (const auto& indices : std::get<0>(assigned)) {
    auto& bucket = buckets.emplace_back();
    for (const std::size_t index : indices) bucket.push_back(order[index]);
  }
  return buckets;
}

std::vector<at::Tensor> in_other_buckets(const std::vector<at::Tensor>& tensors, const BucketParameters& from,
                                         const BucketParameters& to) {
  std::unordered_map<const c10::TensorImpl*, at::Tensor> piece_of;
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::int64_t at = 0;
    for (const at::Tensor& parameter : from[i]) {
      if (tensors[i].defined())
        piece_of[parameter.unsafeGetTensorImpl()] = tensors[i].narrow(0, at, parameter.numel());
      at += parameter.numel();
    }
  }
  std::vector<at::Tensor> result;
  for (const auto& bucket : to) {
    std::vector<at::Tensor> pieces;
    bool has_any = false;
    for (const at::Tensor& parameter : bucket) {
      const auto found = piece_of.find(parameter.unsafeGetTensorImpl());
      has_any = has_any || found != piece_of.end();
      pieces.push_back(found != piece_of.end()
                           ? found->second
                           : at::zeros({parameter.numel()}, parameter.options().requires_grad(false)));
    }
    result.push_back(has_any ? at::cat(pieces) : at::Tensor());
  }
  return result;
}

}  // namespace hookline
