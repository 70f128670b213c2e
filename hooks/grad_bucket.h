// One bucket of gradients, with the accessors of PyTorch's dist.GradBucket.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstddef>
#include <vector>

namespace hookline {

/// A bucket of gradients, as CommHook::run gets it; valid only during that call. Source: dist.GradBucket.
class GradBucket {
 public:
  /// Made by CommHook::runHook(): a view of the Reducer's bucket.
  explicit GradBucket(c10d::GradBucket& bucket) : bucket_(bucket) {}

  /// The bucket's number in the step, from 0, in the order in which buckets are communicated.
  std::size_t index() const { return bucket_.getIndex(); }

  /// All gradients of the bucket in one 1-D tensor.
  at::Tensor buffer() const { return bucket_.getBuffer(); }

  /// The gradients, each in its parameter's shape: views of the buffer.
  std::vector<at::Tensor> gradients() const { return bucket_.getGradients(); }

  /// The parameters, in the order of gradients().
  std::vector<at::Tensor> parameters() const { return bucket_.getParameters(); }

  /// True for the last bucket of the step.
  bool is_last() const { return bucket_.isLast(); }

  /// Returns a bucket that may be kept after the call. It shares the buffer, until set_buffer() is called on
  /// either.
  c10d::GradBucket copy() const { return bucket_; }

  /// Replaces the buffer by one with the same number of elements.
  void set_buffer(at::Tensor buffer) { bucket_.setBuffer(buffer); }

 private:
  c10d::GradBucket& bucket_;
};

}  // namespace hookline
