#include "parallel/model/backward_sink.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "torch_versions/autograd_node.h"

namespace hookline {
namespace {

using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

class BackwardSink : public Node {
 public:
  BackwardSink(edge_list edges, std::shared_ptr<BackwardSinks> sinks, bool communicates,
               std::function<void()> begin)
      : Node(std::move(edges)), sinks_(std::move(sinks)), begin_(std::move(begin)) {
    sinks_->add(this, communicates);
  }
  ~BackwardSink() override { sinks_->remove(this); }

  variable_list apply(variable_list&& gradients) override {
    begin_();
    return std::move(gradients);
  }
  std::string name() const override { return "hookline::BackwardSink"; }

 private:
  std::shared_ptr<BackwardSinks> sinks_;
  std::function<void()> begin_;
};

/// Makes a sink whose gradients go on to `edges`.
using MakeSink = std::function<torch_versions::NodePtr(edge_list edges)>;

void put_behind_one_sink(const std::vector<at::Tensor*>& outputs, const std::set<at::Tensor*>& shared,
                         const MakeSink& make_sink) {
  edge_list edges;
  for (const at::Tensor* output : outputs) edges.push_back(torch::autograd::impl::gradient_edge(*output));
  const torch_versions::NodePtr sink = make_sink(std::move(edges));
  for (at::Tensor* output : outputs) {
    at::Tensor alias = output->detach();  // same version counter: in-place changes are still noticed
    if (shared.contains(output)) alias = alias.clone();
    alias.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);
    torch::autograd::set_history(alias, sink);
    *output = std::move(alias);
  }
}

std::set<at::Tensor*> sharing_memory(const std::vector<at::Tensor*>& outputs) {
  std::set<at::Tensor*> shared;
  for (at::Tensor* output : outputs)
    for (at::Tensor* other : outputs)
      if (output != other && output->has_storage() && other->has_storage() && other->is_alias_of(*output))
        shared.insert(output);
  return shared;
}

}  // namespace

BackwardSinks::Found BackwardSinks::in_this_pass() const {
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  Found found = Found::none;
  if (!nodes) return found;
  const std::lock_guard lock(mutex_);
  for (const auto& [sink, communicates] : communicates_) {
    if (!nodes->contains(const_cast<Node*>(sink))) continue;
    if (communicates) return Found::communicating;
    found = Found::local;
  }
  return found;
}

void BackwardSinks::add(const Node* sink, bool communicates) {
  const std::lock_guard lock(mutex_);
  communicates_[sink] = communicates;
}

void BackwardSinks::remove(const Node* sink) {
  const std::lock_guard lock(mutex_);
  communicates_.erase(sink);
}

bool put_behind_sink(const std::vector<at::Tensor*>& outputs, bool joint,
                     const std::shared_ptr<BackwardSinks>& sinks, bool communicates,
                     const std::function<void()>& begin) {
  std::vector<at::Tensor*> differentiable;
  for (at::Tensor* output : outputs)
    if (output->defined() && output->requires_grad()) differentiable.push_back(output);
  if (differentiable.empty()) return false;
  const std::set<at::Tensor*> shared = sharing_memory(differentiable);
  const MakeSink make_sink = [&](edge_list edges) {
    return torch_versions::make_node<BackwardSink>(std::move(edges), sinks, communicates, begin);
  };
  if (joint) {
    put_behind_one_sink(differentiable, shared, make_sink);
  } else {
    for (at::Tensor* output : differentiable) put_behind_one_sink({output}, shared, make_sink);
  }
  return true;
}

}  // namespace hookline
