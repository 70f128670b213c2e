#include "parallel/bucketing.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/reducer.hpp>

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
  // The Reducer rebuilds from the order in which gradients became ready.
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

}  // namespace hookline
