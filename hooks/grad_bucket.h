// One bucket of gradients, with the accessors that PyTorch's documentation gives it.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstddef>
#include <vector>

namespace hookline {

/// A view of the Reducer's bucket; valid only during the call that it is handed to. Source: dist.GradBucket.
class GradBucket {
 public:
  explicit GradBucket(c10d::GradBucket& bucket) : bucket_(bucket) {}

  /// Position among the step's buckets, from 0, in the order in which they are communicated.
  std::size_t index() const { return bucket_.getIndex(); }

  /// All gradients of the bucket, flattened: 1-D.
  at::Tensor buffer() const { return bucket_.getBuffer(); }

  /// The gradients, each in its parameter's shape: views of the buffer.
  std::vector<at::Tensor> gradients() const { return bucket_.getGradients(); }

  /// The parameters, in the order of gradients().
  std::vector<at::Tensor> parameters() const { return bucket_.getParameters(); }

  /// True for the last bucket of the step.
  bool is_last() const { return bucket_.isLast(); }

  /// One that may be kept beyond the call. It shares the buffer; set_buffer on either is not seen by the other.
  c10d::GradBucket copy() const { return bucket_; }

  /// Puts another buffer of the same number of elements into the bucket.
  void set_buffer(at::Tensor buffer) { bucket_.setBuffer(buffer); }

 private:
  c10d::GradBucket& bucket_;
};

}  // namespace hookline
