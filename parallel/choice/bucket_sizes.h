// Into which buckets gradients may be cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/checks/hook_settings.h"
#include "hooks/hook_state.h"
#include "prediction/step_plan.h"

namespace hookline {

/// Bytes at which a bucket may be full, beside those of the config.
inline const std::vector<std::int64_t> kBucketBytes = {25 << 20, 1 << 20, 256 << 10};

/// "1 MiB", "256 KiB".
std::string size_text(std::int64_t bytes);

/// `settings`, then each of them but the first, no hook, between hosts alone: "fp16 between hosts".
std::vector<HookSetting> in_both_scopes(std::vector<HookSetting> settings);

/// Each of `settings` with the buckets of the config first, then with those of each of `bucket_bytes`: "fp16, 1 MiB buckets".
std::vector<HookSetting> in_each_size(const std::vector<HookSetting>& settings,
                                      const std::vector<std::int64_t>& bucket_bytes);

/// `configured`, then its parameters in the same order in buckets of each of `bucket_bytes`; empty where these are like others before.
std::vector<BucketParameters> layouts_of(const BucketParameters& configured,
                                         const std::vector<std::int64_t>& bucket_bytes);

/// All parameters, in the order in which they are communicated.
std::vector<at::Tensor> order_of(const BucketParameters& buckets);

/// Are the same parameters in the same buckets?
bool are_same(const BucketParameters& a, const BucketParameters& b);

/// When each of `buckets` is ready, in seconds since backward began, by a step in which the same parameters were in buckets `observed`,
/// which were ready at `plan`'s times: when the last of those that have its parameters is.
std::vector<double> ready_times(const BucketParameters& buckets, const BucketParameters& observed,
                                const StepPlan& plan);

}  // namespace hookline
