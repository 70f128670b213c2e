// What a hook keeps from step to step, on its way to or from a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hookline {

/// The parameters of each bucket, in the order in which the buckets are communicated.
using BucketParameters = std::vector<std::vector<at::Tensor>>;

/// Names are the hook's own; those of a bucket are bucket_key(index, …).
struct HookState {
  std::map<std::string, at::Tensor> shared;     // equal on all ranks
  std::map<std::string, at::Tensor> own;        // each rank's own, which no other can use
  std::map<std::string, std::int64_t> numbers;  // equal on all ranks
};

/// "bucket0.error"
inline std::string bucket_key(std::size_t index, const std::string& name) {
  return "bucket" + std::to_string(index) + "." + name;
}

}  // namespace hookline
