#include "parallel/backward_sink.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <string>
#include <utility>

namespace hookline {
namespace {

using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

class BackwardSink : public Node {
 public:
  BackwardSink(edge_list edges, std::function<void()> begin)
      : Node(std::move(edges)), begin_(std::move(begin)) {}

  variable_list apply(variable_list&& gradients) override {
    begin_();
    return std::move(gradients);
  }
  std::string name() const override { return "hookline::BackwardSink"; }

 private:
  std::function<void()> begin_;
};

void put_behind_one_sink(const std::vector<at::Tensor*>& outputs, const std::function<void()>& begin) {
  edge_list edges;
  for (const at::Tensor* output : outputs) edges.push_back(torch::autograd::impl::gradient_edge(*output));
  const std::shared_ptr<Node> sink(new BackwardSink(std::move(edges), begin), torch::autograd::deleteNode);
  for (at::Tensor* output : outputs) {
    at::Tensor alias = output->detach();  // of the same version: a change in place is noticed as before
    alias.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);
    torch::autograd::set_history(alias, sink);
    *output = std::move(alias);
  }
}

}  // namespace

bool put_behind_sink(const std::vector<at::Tensor*>& outputs, bool joint,
                     const std::function<void()>& begin) {
  std::vector<at::Tensor*> differentiable;
  for (at::Tensor* output : outputs)
    if (output->defined() && output->requires_grad()) differentiable.push_back(output);
  if (differentiable.empty()) return false;
  if (joint) {
    put_behind_one_sink(differentiable, begin);
  } else {
    for (at::Tensor* output : differentiable) put_behind_one_sink({output}, begin);
  }
  return true;
}

}  // namespace hookline
