// What a hook keeps from step to step, as checkpoints hold it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hookline {

/// The parameters of each bucket, in the order in which the buckets are communicated.
using BucketParameters = std::vector<std::vector<at::Tensor>>;

/// A hook's state in a checkpoint. The hook chooses the names; for what belongs to a bucket it uses
/// bucket_key().
struct HookState {
  std::map<std::string, at::Tensor> shared;     ///< Tensors that are equal on all ranks.
  std::map<std::string, at::Tensor> own;        ///< This rank's; left out if the number of ranks changes.
  std::map<std::string, std::int64_t> numbers;  ///< Numbers that are equal on all ranks.
};

/// The name of what belongs to a bucket: "bucket0.error" for index 0 and "error".
inline std::string bucket_key(std::size_t index, const std::string& name) {
  return "bucket" + std::to_string(index) + "." + name;
}

}  // namespace hookline
