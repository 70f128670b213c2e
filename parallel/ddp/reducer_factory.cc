#include "parallel/ddp/reducer_factory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "parallel/ddp/bucketing.h"
#include "torch_versions/reducer.h"

namespace hookline {

std::shared_ptr<ResumableReducer> make_reducer(ProcessGroupPtr group,
                                               const std::vector<at::Tensor>& parameters,
                                               const std::vector<std::string>& names,
                                               const DdpOptions& options) {
  const BucketLimits limits = options.bucket_limits;
  // If buckets are rebuilt after the first step, there is only one at first.
  constexpr auto kUnlimited = std::numeric_limits<std::int64_t>::max();
  const bool will_rebuild = options.static_graph || !options.find_unused_parameters;
  std::vector<std::size_t> first_limits{static_cast<std::size_t>(kUnlimited)};
  if (!will_rebuild) {
    first_limits = {static_cast<std::size_t>(limits.first_bytes), static_cast<std::size_t>(limits.cap_bytes)};
  }
  torch_versions::ReducerOptions chosen;
  chosen.buckets = assign_buckets(parameters, first_limits);
  chosen.first_bucket_bytes = limits.first_bytes;
  chosen.bucket_bytes = limits.cap_bytes;
  chosen.find_unused_parameters = options.find_unused_parameters;
  chosen.gradient_as_bucket_view = options.gradient_as_bucket_view;
  for (std::size_t i = 0; i < names.size(); ++i) chosen.names[i] = names[i];
  return torch_versions::make_reducer<ResumableReducer>(parameters, std::move(group), std::move(chosen));
}

}  // namespace hookline
