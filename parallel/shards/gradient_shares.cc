#include "parallel/shards/gradient_shares.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "parallel/shards/sharded_parameters.h"
#include "parallel/tensors/same_layout.h"

namespace hookline {

GradientShares::GradientShares(std::vector<std::string> names, std::vector<at::Tensor> parameters, int rank,
                               int ranks)
    : names_(std::move(names)),
      parameters_(std::move(parameters)),
      rank_(rank),
      ranks_(ranks),
      gradients_(parameters_.size()) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].is_non_overlapping_and_dense())
      throw Error("[ddp] shard_optimizer: the parameter '" + names_[i] +
                  "' has gaps in memory, and can't be cut into the ranks' shares: make it contiguous, or set "
                  "shard_optimizer = false");
  }
}

Share GradientShares::share_of(std::size_t index, int rank) const {
  return even_share(parameters_[index].numel(), rank, ranks_);
}

at::Tensor GradientShares::piece(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& grad = parameters_[index].mutable_grad();
  if (!have_same_layout(grad, parameters_[index]))  // set by the program
    grad = at::empty_like(parameters_[index], at::MemoryFormat::Preserve).copy_(grad);
  return part_of(grad.detach(), share_of(index, rank_));
}

void GradientShares::put_aside(std::size_t index) {
  Gradient& gradient = gradients_[index];
  at::Tensor& grad = parameters_[index].mutable_grad();
  if (gradient.holds == Holds::others_on_top && !grad.defined()) gradient = {};  // dropped by the program
  if (gradient.holds != Holds::average) return;
  if (!grad.defined()) {  // likewise
    gradient.holds = Holds::own;
    if (was_stepped_ || told_of_drop_.exchange(true) || rank_ != 0) return;
    log::warning(
        "[ddp] shard_optimizer: averaged gradients were dropped, and no optimizer that prepare() returned "
        "has stepped the model. Step the optimizer that prepare() returned: a step of any other leaves the "
        "ranks "
        "with different parameters, since each has the averages of its share alone");
    return;
  }
  const at::NoGradGuard no_grad;
  gradient.aside = piece(index).clone();
  grad.reset();
  gradient.holds = Holds::average_aside;
}

void GradientShares::before_gradient(std::size_t index) {
  put_aside(index);
  Gradient& gradient = gradients_[index];
  if (gradient.holds == Holds::average_aside) gradient.holds = Holds::others_on_top;
}

void GradientShares::before_average() {
  for (std::size_t i = 0; i < gradients_.size(); ++i) put_aside(i);
}

void GradientShares::after_average() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    Gradient& gradient = gradients_[i];
    at::Tensor& grad = parameters_[i].mutable_grad();
    if (gradient.aside.defined()) {
      if (!grad.defined()) grad = at::zeros_like(parameters_[i], at::MemoryFormat::Preserve).detach();
      piece(i).add_(gradient.aside);
      gradient.aside.reset();
    }
    gradient.holds = grad.defined() ? Holds::average : Holds::own;
    if (grad.defined()) gradient.sample = sample_of(i);
  }
}

at::Tensor GradientShares::own_gradient(std::size_t index) const {
  const Gradient& gradient = gradients_[index];
  const at::Tensor& grad = parameters_[index].grad();
  const bool is_average = gradient.holds == Holds::average && grad.defined();
  const bool is_dropped = gradient.holds == Holds::others_on_top && !grad.defined();
  if (!is_average && (is_dropped || !gradient.aside.defined())) return grad;
  // In this share, the other ranks have nothing of the average. So it is multiplied by the number of ranks:
  // summing and dividing then gives it back.
  const at::NoGradGuard no_grad;
  const Share share = share_of(index, rank_);
  const at::Tensor own = at::zeros_like(parameters_[index], at::MemoryFormat::Preserve).detach();
  if (!is_average && grad.defined()) own.copy_(grad);
  part_of(own, share).add_(is_average ? part_of(grad.detach(), share) : gradient.aside, ranks_);
  return own;
}

void GradientShares::forget() { gradients_.assign(gradients_.size(), {}); }

void GradientShares::drop() {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i].aside.defined() && !parameters_[i].grad().defined()) gradients_[i] = {};
}

GradientShares::Sample GradientShares::sample_of(std::size_t index) const {
  Sample sample{};
  const at::Tensor& gradient = parameters_[index].grad();
  const Share own = share_of(index, rank_);
  // The host would have to wait for a gradient on a GPU.
  if (!gradient.is_cpu() || own.count == gradient.numel()) return sample;
  const at::Tensor element = part_of(gradient, {own.first > 0 ? 0 : own.count, 1});
  std::memcpy(sample.data(), element.const_data_ptr(), gradient.element_size());
  return sample;
}

void GradientShares::before_step(std::size_t index) {
  was_stepped_ = true;
  const Gradient& gradient = gradients_[index];
  if (told_of_change_ || gradient.holds != Holds::average || gradient.sample == sample_of(index)) return;
  told_of_change_ = true;
  log::warning(
      "[ddp] shard_optimizer: the gradient of '" + names_[index] +
      "' was changed between the backward and the step. Each rank has the averages of its share alone, so "
      "that is right only if every element was treated by itself: clip the norm of gradients with "
      "accelerator.clip_grad_norm, not with torch::nn::utils::clip_grad_norm_");
}

}  // namespace hookline
