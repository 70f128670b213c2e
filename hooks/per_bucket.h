// What a hook keeps for each bucket from step to step.
#pragma once

#include <map>
#include <vector>

#include "hooks/grad_bucket.h"

namespace hookline {

/// A `State` for each bucket, made when it is first asked for. Buckets are known by their parameters: DDP
/// rebuilds and numbers them anew after the first step. Not synchronised: for use in CommHook::run.
template <typename State>
class PerBucket {
 public:
  /// The state of `bucket`, which is value-initialized when it is first asked for.
  State& operator[](const GradBucket& bucket) { return of(bucket.parameters()); }
  /// The same for the bucket of these parameters, in that order: an element of BucketParameters.
  State& of(const std::vector<at::Tensor>& parameters) { return states_[key(parameters)]; }

  /// The state of the bucket of these parameters; null if none was asked for yet.
  const State* find(const std::vector<at::Tensor>& parameters) const {
    const auto found = states_.find(key(parameters));
    return found == states_.end() ? nullptr : &found->second;
  }

 private:
  using Key = std::vector<const void*>;

  static Key key(const std::vector<at::Tensor>& parameters) {
    Key key;
    for (const at::Tensor& parameter : parameters) key.push_back(parameter.unsafeGetTensorImpl());
    return key;
  }

  std::map<Key, State> states_;
};

/// A tensor for each bucket, as large as its buffer, to be written in every step: memory that is allocated
/// once. The step that used it must be over, as it is when the Reducer starts the next.
class BucketBuffers {
 public:
  /// Returns the buffer of `bucket`: [numel], of `dtype`, on the bucket's device. Its values are undefined
  /// when it is new or another dtype is asked for; otherwise they are those of the step before.
  at::Tensor of(const GradBucket& bucket, at::ScalarType dtype) {
    const at::Tensor like = bucket.buffer();
    at::Tensor& buffer = buffers_[bucket];
    if (!buffer.defined() || buffer.numel() != like.numel() || buffer.scalar_type() != dtype)
      buffer = at::empty_like(like, like.options().dtype(dtype));
    return buffer;
  }

 private:
  PerBucket<at::Tensor> buffers_;
};

}  // namespace hookline
