#include "hooks/comm_hook.h"

#include <functional>
#include <limits>
#include <numeric>

namespace hookline {

std::int64_t numel(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t CommHook::bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const {
  std::int64_t elements = 0;
  for (const BucketShapes& bucket : buckets) {
    for (const auto& shape : bucket) elements += numel(shape);
  }
  return elements * static_cast<std::int64_t>(c10::elementSize(dtype));
}

double tolerance_of_average(at::ScalarType dtype) {
  // Each of a sum's terms is rounded once; the factor leaves room for some tens of ranks.
  switch (dtype) {
    case at::kDouble:
      return 32 * std::numeric_limits<double>::epsilon();
    case at::kFloat:
      return 32 * std::numeric_limits<float>::epsilon();
    case at::kHalf:
      return 8 * static_cast<double>(std::numeric_limits<at::Half>::epsilon());
    default:
      return 8 * static_cast<double>(std::numeric_limits<at::BFloat16>::epsilon());
  }
}

FuturePtr CommHook::runHook(c10d::GradBucket& bucket) {
  try {
    return run(GradBucket(bucket));
  } catch (...) {
    FuturePtr failed = make_future();
    failed->setError(std::current_exception());
    return failed;
  }
}

at::Tensor CommHook::parseHookResult(const c10::IValue& result) {
  return c10d::detail::parseCppCommHookResult(result);
}

}  // namespace hookline
