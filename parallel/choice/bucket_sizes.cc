#include "parallel/choice/bucket_sizes.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "base/text/bytes_text.h"
#include "parallel/ddp/bucketing.h"

namespace hookline {

std::vector<HookSetting> in_both_scopes(std::vector<HookSetting> settings) {
  const std::size_t count = settings.size();
  for (std::size_t i = 1; i < count; ++i) {
    settings.push_back(settings[i]);
    settings.back().name += " between hosts";
    settings.back().between_hosts = true;
  }
  return settings;
}

std::vector<HookSetting> in_each_size(const std::vector<HookSetting>& settings,
                                      const std::vector<std::int64_t>& bucket_bytes) {
  std::vector<HookSetting> all;
  for (const HookSetting& each : settings) {
    all.push_back(each);
    for (const std::int64_t bytes : bucket_bytes) {
      all.push_back(each);
      all.back().name += ", " + binary_bytes_text(bytes) + " buckets";
      all.back().bucket_bytes = bytes;
    }
  }
  return all;
}

std::vector<BucketParameters> layouts_of(const BucketParameters& configured,
                                         const std::vector<std::int64_t>& bucket_bytes) {
  std::vector<BucketParameters> layouts{configured};
  const std::vector<at::Tensor> order = order_of(configured);
  for (const std::int64_t bytes : bucket_bytes) {
    BucketParameters buckets = cut_into_buckets(order, {bytes, bytes});
    const bool is_new = std::none_of(layouts.begin(), layouts.end(), [&](const BucketParameters& before) {
      return are_same(before, buckets);
    });
    layouts.push_back(is_new ? std::move(buckets) : BucketParameters());
  }
  return layouts;
}

std::vector<at::Tensor> order_of(const BucketParameters& buckets) {
  std::vector<at::Tensor> order;
  for (const auto& bucket : buckets) order.insert(order.end(), bucket.begin(), bucket.end());
  return order;
}

bool are_same(const BucketParameters& a, const BucketParameters& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                      [](const at::Tensor& x, const at::Tensor& y) { return x.is_same(y); });
  });
}

std::vector<double> ready_times(const BucketParameters& buckets, const BucketParameters& observed,
                                const StepPlan& plan) {
  std::unordered_map<const c10::TensorImpl*, double> ready_at;
  for (std::size_t i = 0; i < observed.size(); ++i)
    for (const at::Tensor& parameter : observed[i])
      ready_at[parameter.unsafeGetTensorImpl()] = plan.buckets.at(i).ready;
  std::vector<double> ready;
  for (const auto& bucket : buckets) {
    double last = 0;
    for (const at::Tensor& parameter : bucket)
      last = std::max(last, ready_at.at(parameter.unsafeGetTensorImpl()));
    ready.push_back(last);
  }
  return ready;
}

}  // namespace hookline
