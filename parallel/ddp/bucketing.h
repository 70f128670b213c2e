// How parameters are cut into buckets, as DistributedDataParallel cuts them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/comm_hook.h"

namespace hookline {

/// Bytes that a bucket may hold. A bucket is full once it has that many: the gradient that fills it may
/// exceed the limit. Source: DistributedDataParallel.__init__ of torch 2.11.
struct BucketLimits {
  std::int64_t first_bytes;  ///< Of the first bucket.
  std::int64_t cap_bytes;    ///< Of each other bucket.

  /// The limits for [ddp] bucket_cap_mb, in MiB. Unset: the first bucket 1 MiB, so that communication starts
  /// early, the others 25 MiB. Set: all of that size.
  static BucketLimits from(std::optional<std::int64_t> bucket_cap_mb);
  /// True if both limits are equal.
  bool operator==(const BucketLimits&) const = default;
};

/// Indices into `parameters`, bucket by bucket, in the order in which gradients are expected: the reverse of
/// the parameters' own. `limits` in bytes: each but the last for one bucket, the last for all that follow.
std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<at::Tensor>& parameters,
                                                     const std::vector<std::size_t>& limits);

/// The buckets' shapes once DDP has rebuilt them after its first step, if gradients come in reverse order.
std::vector<BucketShapes> expected_buckets(const std::vector<at::Tensor>& parameters,
                                           const BucketLimits& limits);

/// `order`, the parameters in the order in which their gradients come, in the buckets that the Reducer would
/// rebuild from it.
BucketParameters cut_into_buckets(const std::vector<at::Tensor>& order, const BucketLimits& limits);

/// Rearranges `tensors`, one 1-D tensor per bucket of `from` (undefined: nothing), into the buckets `to`,
/// which hold the same parameters.
std::vector<at::Tensor> in_other_buckets(const std::vector<at::Tensor>& tensors, const BucketParameters& from,
                                         const BucketParameters& to);

}  // namespace hookline
