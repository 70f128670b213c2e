// A c10d::Reducer whose buckets can be saved and restored, and which each backward pass prepares for itself.
#pragma once

#include <cstddef>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>
#include <vector>

#include "parallel/ddp/ddp.h"

namespace hookline {

/// A resumed model must sum its gradients in the buckets that it had: Gloo's sums depend on where an element
/// lies.
class ResumableReducer : public c10d::Reducer {
 public:
  using Reducer::Reducer;

  /// Indices of parameters, bucket by bucket, in the order in which buckets are communicated.
  std::vector<std::vector<std::size_t>> layout() const {
    std::vector<std::vector<std::size_t>> buckets;
    for (const Bucket& bucket : buckets_) buckets.push_back(bucket.variable_indices);
    return buckets;
  }
  /// Have buckets taken the order in which gradients came? They do so once.
  bool has_rebuilt() const { return has_rebuilt_bucket_; }

  /// Takes rebuilt buckets over, where none were rebuilt yet.
  void restore_rebuilt(std::vector<std::vector<std::size_t>> buckets) {
    has_rebuilt_bucket_ = true;
    rebuilt_params_.clear();
    rebuilt_param_indices_.clear();
    initialize_buckets(std::move(buckets));
  }

  /// Does the backward pass that runs on this thread accumulate into any parameter's gradient?
  /// torch::autograd::grad does not, nor does a pass through a model that is frozen, or whose parameters are
  /// all in parts that are recomputed in passes of their own.
  bool is_reached();
  /// Will the gradients that come next be averaged?
  bool expects_gradients();
  /// Prepares the reduction of the backward pass that runs on this thread; call it before the pass reaches a
  /// parameter. Returns false, and does nothing, if it reaches none. Throws c10::Error if an earlier pass did
  /// not reach all parameters.
  bool begin_backward();
  /// The same for a pass whose gradients stay local: the Reducer ignores them.
  void begin_local_backward();
  /// True until a static graph's first backward has taught how often each parameter's gradient comes; call
  /// delay_all_reduce at the end of that backward.
  bool learns() const { return static_graph_ && !learnt_; }
  void delay_all_reduce() {
    Reducer::delay_all_reduce();
    learnt_ = true;
  }
  /// What it taught.
  LearntGraph learnt_graph() const {
    LearntGraph graph;
    for (std::size_t i = 0; learnt_ && i < params_.size(); ++i) {
      graph.times.push_back(numGradHooksTriggeredMap_.at(i));
      graph.used.push_back(local_used_map_[static_cast<std::int64_t>(i)].item<int>());
    }
    return graph;
  }
  /// Restores the state after the static graph's first backward. That backward itself can't be repeated: its
  /// final reduction works only with the single bucket that exists before buckets are rebuilt.
  void restore_learnt_graph(const LearntGraph& graph) {
    learnt_ = true;
    unused_parameters_.clear();
    for (std::size_t i = 0; i < params_.size(); ++i) {
      numGradHooksTriggeredMap_[i] = graph.times.at(i);
      local_used_map_[static_cast<std::int64_t>(i)] = graph.used.at(i);
      if (graph.times[i] == 0) unused_parameters_.push_back(i);
    }
  }

  /// With find_unused_parameters: which parameters took part since gradients were last communicated,
  /// [number of parameters], int32.
  const at::Tensor& used_parameters() const { return local_used_map_; }

 private:
  void find_unused_parameters_of_this_backward();

  bool learnt_ = false;
};

}  // namespace hookline
