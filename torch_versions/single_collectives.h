// Collectives between one tensor and another, by the names that torch has for them: it renamed them, and
// deprecated the former names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace hookline::torch_versions {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Group is always c10d::ProcessGroup. As a template's parameter it lets the compiler drop the call of a name
// that this torch lacks, or has deprecated.

/// Fills `output` [ranks · n] with each rank's `input` [n].
template <class Group>
WorkPtr all_gather_single(Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); })
    return group.all_gather_single(output, input);
  else
    return group._allgather_base(output, input);
}

/// Fills `output` [n] with this rank's part of the sum over ranks of `input` [ranks · n].
template <class Group>
WorkPtr reduce_scatter_single(Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.reduce_scatter_single(output, input); })
    return group.reduce_scatter_single(output, input);
  else
    return group._reduce_scatter_base(output, input);
}

/// Sends part r of `input` to rank r, and fills part r of `output` with what it sends here; all parts have
/// the same size.
template <class Group>
WorkPtr all_to_all_single(Group& group, at::Tensor& output, at::Tensor& input) {
  std::vector<std::int64_t> equal_parts;
  if constexpr (requires { group.all_to_all_single(output, input, equal_parts, equal_parts); })
    return group.all_to_all_single(output, input, equal_parts, equal_parts);
  else
    return group.alltoall_base(output, input, equal_parts, equal_parts);
}

}  // namespace hookline::torch_versions
