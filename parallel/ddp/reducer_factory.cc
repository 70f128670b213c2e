#include "parallel/ddp/reducer_factory.h"

#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>

#include "parallel/ddp/bucketing.h"

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "c10d::Reducer's constructor is known for torch 2.11 only: compare it with this file's call");

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
  std::unordered_map<std::size_t, std::string> names_by_index;
  for (std::size_t i = 0; i < names.size(); ++i) names_by_index[i] = names[i];

  return std::make_shared<ResumableReducer>(
      parameters, assign_buckets(parameters, first_limits), std::move(group),
      /*expect_sparse_gradients=*/std::vector<bool>(parameters.size(), false),
      /*bucket_bytes_cap=*/limits.cap_bytes, options.find_unused_parameters, options.gradient_as_bucket_view,
      names_by_index, /*first_bucket_bytes_cap=*/limits.first_bytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
}

}  // namespace hookline
