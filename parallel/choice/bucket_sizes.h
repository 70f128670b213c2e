// The bucket layouts that comm_hook = "auto" may choose from.
#pragma once

#include <cstdint>
#include <vector>

#include "config/checks/hook_settings.h"
#include "hooks/hook_state.h"
#include "prediction/step_plan.h"

namespace hookline {

/// Bytes at which a bucket may be full, in addition to those of the config.
inline const std::vector<std::int64_t> kBucketBytes = {25 << 20, 1 << 20, 256 << 10};

/// `settings`, followed by each of them except the first (no hook) applied between hosts only: "fp16 between
/// hosts".
std::vector<HookSetting> in_both_scopes(std::vector<HookSetting> settings);

/// Each of `settings` with the buckets of the config first, then with those of each of `bucket_bytes`: "fp16,
/// 1 MiB buckets".
std::vector<HookSetting> in_each_size(const std::vector<HookSetting>& settings,
                                      const std::vector<std::int64_t>& bucket_bytes);

/// `configured`, followed by a layout of the same parameters for each of `bucket_bytes`; a layout that equals
/// an earlier one is left empty.
std::vector<BucketParameters> layouts_of(const BucketParameters& configured,
                                         const std::vector<std::int64_t>& bucket_bytes);

/// All parameters, in the order in which they are communicated.
std::vector<at::Tensor> order_of(const BucketParameters& buckets);

/// Are the same parameters in the same buckets?
bool are_same(const BucketParameters& a, const BucketParameters& b);

/// When each of `buckets` becomes ready, in seconds since backward began. Derived from a step with the same
/// parameters in buckets `observed`, ready at `plan`'s times: a bucket is ready once all observed buckets
/// with its parameters are.
std::vector<double> ready_times(const BucketParameters& buckets, const BucketParameters& observed,
                                const StepPlan& plan);

}  // namespace hookline
