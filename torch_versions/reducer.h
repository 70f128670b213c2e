// c10d::Reducer's constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hookline::torch_versions {

/// What DDP chooses of a Reducer.
struct ReducerOptions {
  std::vector<std::vector<std::size_t>> buckets;          // indices of parameters, by bucket
  std::int64_t first_bucket_bytes = 0, bucket_bytes = 0;  // upper limits, for buckets that are rebuilt
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  std::unordered_map<std::size_t, std::string> names;  // of parameters, for messages
};

/// Makes a `Reducer`, which inherits c10d::Reducer's constructors. In later versions these take further
/// arguments, whose defaults keep the behaviour of 2.11: batched_grad_copy from 2.13 on, and
/// lazy_bucket_allocation from 2.15 on.
template <class Reducer>
std::shared_ptr<Reducer> make_reducer(std::vector<at::Tensor> parameters,
                                      c10::intrusive_ptr<c10d::ProcessGroup> group, ReducerOptions options) {
  std::vector<bool> expects_sparse(parameters.size(), false);
  return std::make_shared<Reducer>(
      std::move(parameters), std::move(options.buckets), std::move(group), std::move(expects_sparse),
      options.bucket_bytes, options.find_unused_parameters, options.gradient_as_bucket_view,
      std::move(options.names), options.first_bucket_bytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
}

}  // namespace hookline::torch_versions
