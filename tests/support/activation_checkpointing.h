// Activation checkpointing: parts of a model that backward recomputes.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace hookline::testing {

/// Recomputes `run` during backward, in a nested backward: torch.utils.checkpoint with use_reentrant=True.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
  using Run = std::function<at::Tensor(const at::Tensor&)>;
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::shared_ptr<Run>& run) {
    const torch::NoGradGuard no_grad;
    context->save_for_backward({x});
    kept().push_back(run);
    context->saved_data["run"] = static_cast<std::int64_t>(kept().size() - 1);
    return (*run)(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const torch::AutoGradMode with_gradients(true);
    const Run& run = *kept()[static_cast<std::size_t>(context->saved_data["run"].toInt())];
    torch::autograd::backward({run(x)}, {gradients[0]});
    return {x.grad(), at::Tensor()};
  }
  /// The kept functions of this thread, which is a rank.
  static std::vector<std::shared_ptr<Run>>& kept() {
    thread_local std::vector<std::shared_ptr<Run>> all;
    return all;
  }
};

inline at::Tensor checkpointed(const at::Tensor& x, Checkpointed::Run run) {
  return Checkpointed::apply(x, std::make_shared<Checkpointed::Run>(std::move(run)));
}

}  // namespace hookline::testing
