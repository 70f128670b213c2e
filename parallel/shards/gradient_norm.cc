#include "parallel/shards/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace hookline {
namespace {

/// Combines the norms of parts: sums their powers or, for the infinity norm, takes the greatest. NaN stays
/// NaN.
class Norm {
 public:
  explicit Norm(double type) : type_(type) {}

  void add(double part) {
    if (!std::isinf(type_))
      sum_ += part;
    else if (!std::isnan(sum_) && !(part <= sum_))
      sum_ = part;
  }
  void add(const std::vector<at::Tensor>& gradients) {
    for (const at::Tensor& gradient : gradients) {
      if (gradient.numel() == 0) continue;
      const double norm = gradient.norm(type_).item<double>();
      add(std::isinf(type_) ? norm : std::pow(norm, type_));
    }
  }
  double part() const { return sum_; }
  double value() const { return std::isinf(type_) ? sum_ : std::pow(sum_, 1 / type_); }

 private:
  double type_;
  double sum_ = 0;
};

}  // namespace

double clip_gradient_norm(World& world, const ShardedParameters& shards,
                          const std::vector<at::Tensor>& parameters, double max_norm, double norm_type) {
  const bool is_sharded = std::any_of(parameters.begin(), parameters.end(),
                                      [&](const at::Tensor& each) { return shards.contains(each); });
  if (!is_sharded) return torch::nn::utils::clip_grad_norm_(parameters, max_norm, norm_type);

  if (!(norm_type > 0))
    throw Error(
        "clip_grad_norm: for a sharded model or optimizer, norm_type must be above 0, such as 1 or 2, not " +
        std::to_string(norm_type));
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> pieces, wholes;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    if (shards.contains(parameter))
      pieces.push_back(shards.gradient_piece(parameter));
    else
      wholes.push_back(parameter.grad().detach());
  }
  Norm own(norm_type), all(norm_type);
  own.add(pieces);
  all.add(wholes);
  for (const at::Tensor& part : world.all_gather(at::full({1}, own.part(), at::kDouble)))
    all.add(part.item<double>());
  const double norm = all.value();
  const double scale = max_norm / (norm + 1e-6);
  if (scale >= 1) return norm;
  for (const auto* gradients : {&pieces, &wholes})
    for (const at::Tensor& gradient : *gradients) gradient.mul_(scale);  // by NaN too, as torch does
  return norm;
}

}  // namespace hookline
