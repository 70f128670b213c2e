#include "parallel/ddp/resumable_reducer.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace hookline {
namespace {

using torch::autograd::Node;

/// The nodes that the backward pass on this thread executes.
class CurrentPass {
 public:
  bool accumulates_into(Node* accumulator) const {
    if (!nodes_ || nodes_->count(accumulator) == 0) return false;
    if (!chosen_ || chosen_->empty())
      return true;  // not torch::autograd::grad, and no inputs passed to backward()
    const auto info = chosen_->find(accumulator);
    return info != chosen_->end() && info->second.needed_;
  }

 private:
  const std::unordered_set<Node*>* nodes_ = torch::autograd::get_current_graph_task_nodes_in_graph();
  const std::unordered_map<Node*, torch::autograd::GraphTask::ExecInfo>* chosen_ =
      torch::autograd::get_current_graph_task_exec_info();
};

}  // namespace

bool ResumableReducer::is_reached() {
  const std::lock_guard lock(mutex_);
  const CurrentPass pass;
  return std::any_of(grad_accumulators_.begin(), grad_accumulators_.end(),
                     [&](const auto& accumulator) { return pass.accumulates_into(accumulator.get()); });
}

bool ResumableReducer::expects_gradients() {
  const std::lock_guard lock(mutex_);
  return expect_autograd_hooks_;
}

bool ResumableReducer::begin_backward() {
  if (!is_reached()) return false;
  {
    const std::lock_guard lock(mutex_);
    ensure_prior_reduction_finished();
    // Buckets are rebuilt in the order of the latest pass: the second one, if two run before the next
    // forward.
    if (should_rebuild_buckets()) {
      rebuilt_params_.clear();
      rebuilt_param_indices_.clear();
    }
    if (static_graph_) {
      first_autograd_hook_called_ = false;
      num_bwd_calls_ = learnt_ ? 1 : 0;  // the first gradient adds 1, and more than 1 means learnt
      if (!learnt_) {
        for (auto& [index, times] : numGradHooksTriggeredMap_) times = 0;  // left by a pass that threw
        local_used_map_.zero_();
      }
    }
  }
  // prepare_for_backward searches the graph of the given outputs for unused parameters. It gets no outputs
  // here, since this pass itself shows what it reaches.
  const bool has_been_static = ddp_graph_static_;
  const std::vector<std::size_t> unused_before = prev_iteration_unused_parameters_;
  prepare_for_backward({});
  if (find_unused_parameters_ && !static_graph_) {
    const std::lock_guard lock(mutex_);
    ddp_graph_static_ = has_been_static;
    prev_iteration_unused_parameters_ = unused_before;
    find_unused_parameters_of_this_backward();
  }
  return true;
}

void ResumableReducer::find_unused_parameters_of_this_backward() {
  const CurrentPass pass;
  unused_parameters_.clear();
  for (std::size_t i = 0; i < grad_accumulators_.size(); ++i)
    if (!pass.accumulates_into(grad_accumulators_[i].get())) unused_parameters_.push_back(i);
}

void ResumableReducer::begin_local_backward() {
  const std::lock_guard lock(mutex_);
  if (require_finalize_) return;  // inside a pass that communicates
  expect_autograd_hooks_ = false;
  if (!static_graph_) return;
  // Neither learning nor learnt: gradients of this pass do not count for the static graph.
  first_autograd_hook_called_ = true;
  num_bwd_calls_ = 0;
}

}  // namespace hookline
