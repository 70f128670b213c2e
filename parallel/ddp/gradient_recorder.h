// Records a model's gradients, for hookline replay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/recording.h"
#include "hooks/grad_bucket.h"
#include "parallel/tensors/safetensors.h"

namespace hookline {

/// Writes this rank's own gradients, as they are before the hook, to one file per step:
/// FOLDER/step0000.rank0.safetensors, and so on, for the first `steps` steps. Tensors have their
/// parameters' names.
class GradientRecorder {
 public:
  /// Makes `folder`. Throws Error if it can't be made.
  GradientRecorder(std::filesystem::path folder, std::int64_t steps, int rank,
                   const std::vector<std::string>& names, const std::vector<at::Tensor>& parameters);

  /// Takes a bucket, and writes the file with the last one. Throws Error if it can't be written.
  void take(const GradBucket& bucket);

 private:
  std::filesystem::path folder_;
  std::int64_t steps_;
  int rank_;
  std::unordered_map<const void*, std::string> names_;  // by the parameter's identity
  NamedTensors gradients_;                              // of the step so far
  std::int64_t step_ = 0;
};

}  // namespace hookline
