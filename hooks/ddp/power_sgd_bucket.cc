#include "hooks/ddp/power_sgd_bucket.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace hookline {

PowerSgdBucket::PowerSgdBucket(PowerSgdLayout layout_in, const at::TensorOptions& like,
                               bool use_error_feedback)
    : layout(std::move(layout_in)),
      feeds_error_back(use_error_feedback),
      p_factors(layout.p_factors()),
      q_factors(layout.q_factors()),
      p(at::empty({layout.p_numel}, like)),
      q(at::empty({layout.q_numel}, like)),
      redraw_seeds(layout.matrices.size()) {
  if (feeds_error_back) {
    sum = at::zeros({layout.padded_numel}, like);
    before = {at::empty({layout.p_factors_numel()}, like), at::empty({layout.q_numel}, like)};
  } else if (layout.padded_numel != layout.numel) {
    sum = at::zeros({layout.padded_numel}, like);
  }
}

void PowerSgdBucket::put_factors_aside() {
  takes_off_before = std::exchange(holds_product, false);
  if (!takes_off_before) return;
  before.p.copy_(p.narrow(0, 0, before.p.numel()));
  before.q.copy_(q);
}

at::Tensor PowerSgdBucket::pack(const at::Tensor& gradients) {
  // `work` is what this rank sends. With error feedback, the pass that reads it below also adds the gradients
  // to it.
  const at::Tensor work = sum.defined() ? sum : gradients;
  if (!feeds_error_back && sum.defined()) work.narrow(0, 0, layout.numel).copy_(gradients);
  const at::Tensor added = feeds_error_back ? gradients : at::Tensor();
  accumulate_and_multiply(layout.matrices, work, takes_off_before ? before : FactorPair(), added, {p, q});
  add_plain(layout.plain, feeds_error_back ? work : at::Tensor(), gradients, p);
  return work;
}

void PowerSgdBucket::multiply_transposed(const at::Tensor& work, double epsilon) {
  orthogonalize(p, p_factors, epsilon);
  hookline::multiply_transposed(layout.matrices, work, {p, q});
}

void PowerSgdBucket::unpack(const at::Tensor& gradients, int world_size) {
  q.div_(world_size);
  reconstruct(layout.matrices, {p, q}, gradients);
  const std::int64_t behind = layout.p_factors_numel();
  p.narrow(0, behind, layout.p_numel - behind).div_(world_size);
  take_plain(layout.plain, p, gradients, feeds_error_back ? sum : at::Tensor());
  holds_product = feeds_error_back;
}

void PowerSgdBucket::form_error() {
  if (holds_product) accumulate(layout.matrices, sum, {p, q}, at::Tensor());
  holds_product = false;
}

}  // namespace hookline
