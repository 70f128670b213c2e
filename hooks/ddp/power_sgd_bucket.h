// What PowerSGD keeps of one bucket from step to step, and what it computes before, between and after its
// collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooks/ddp/power_sgd_layout.h"
#include "hooks/numerics/finite_check.h"
#include "hooks/numerics/low_rank.h"

namespace hookline {

/// One step calls: put_factors_aside(); PowerSgd::start_q(), which fills `q`; pack(); the ranks sum `p`;
/// multiply_transposed(); the ranks sum `q`; unpack(). Communicates nothing itself.
///
/// Used by one step at a time: the Reducer waits for a bucket's future before the next step begins.
struct PowerSgdBucket {
  PowerSgdBucket(PowerSgdLayout layout_in, const at::TensorOptions& like, bool use_error_feedback);

  /// Copies the last step's P and Q to `before`, if their product must still be subtracted from `sum`.
  void put_factors_aside();
  /// Adds `gradients` to the error, if it is fed back, and writes P = M·Q of the sum into `p`, with what is
  /// not compressed behind it. Returns the bucket with the matrices M, for multiply_transposed().
  at::Tensor pack(const at::Tensor& gradients);
  /// Orthogonalizes the ranks' sum of P in `p`, and writes Q = Mᵀ·P of the matrices in `work` into `q`.
  void multiply_transposed(const at::Tensor& work, double epsilon);
  /// Writes the average into `gradients`: P·Qᵀ, and what was not compressed, with the ranks' sums in `p` and
  /// `q`.
  void unpack(const at::Tensor& gradients, int world_size);
  /// Subtracts the product P·Qᵀ from `sum`, if that is still to be done, so that `sum` holds the error.
  void form_error();

  PowerSgdLayout layout;
  bool feeds_error_back;
  Factors p_factors, q_factors;
  at::Tensor p;  // [p_numel]
  at::Tensor q;  // [q_numel]
  bool has_q = false;
  std::vector<std::uint64_t> redraw_seeds;  // of the step, one for each matrix
  FiniteCheck is_finite;

  // [padded_numel]. With error feedback: the last step's gradients plus error. If `holds_product`, its
  // matrices become the error once P·Qᵀ is subtracted; the plain segments hold the error already.
  // Without error feedback: a zero-padded copy of the gradients if the matrix is larger than the bucket, else
  // undefined.
  at::Tensor sum;
  bool holds_product = false;
  FactorPair before;  // the P and Q of the last step, while those of this one are made
  bool takes_off_before = false;
};

}  // namespace hookline
