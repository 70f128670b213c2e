// What PowerSGD keeps of one bucket from step to step, and what it computes before, between and after its collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooks/ddp/power_sgd_layout.h"
#include "hooks/numerics/finite_check.h"
#include "hooks/numerics/low_rank.h"

namespace hookline {

/// One step calls: put_factors_aside(), then whatever starts `q`; pack(); the ranks sum `p`; multiply_transposed(); the ranks sum
/// `q`; unpack(). Communicates nothing itself.
///
/// Used by one step at a time: the Reducer waits for a bucket's future before the next step begins.
struct PowerSgdBucket {
  PowerSgdBucket(PowerSgdLayout layout_in, const at::TensorOptions& like, bool use_error_feedback);

  /// Keeps the P and Q of the last step where its product is still part of the error.
  void put_factors_aside();
  /// Adds the error, if it is fed back, to `gradients`, and writes P = M·Q of the sum into `p`, with what is not compressed behind
  /// it. Returns the bucket with the matrices M, for multiply_transposed().
  at::Tensor pack(const at::Tensor& gradients);
  /// Orthogonalizes the ranks' sum of P in `p`, and writes Q = Mᵀ·P of the matrices in `work` into `q`.
  void multiply_transposed(const at::Tensor& work, double epsilon);
  /// Writes the average into `gradients`: P·Qᵀ, and what was not compressed, with the ranks' sums in `p` and `q`.
  void unpack(const at::Tensor& gradients, int world_size);
  /// Leaves in `sum` the error that it stands for.
  void form_error();

  PowerSgdLayout layout;
  bool feeds_error_back;
  Factors p_factors, q_factors;
  at::Tensor p;  // [p_numel]
  at::Tensor q;  // [q_numel]
  bool has_q = false;
  std::vector<std::uint64_t> redraw_seeds;  // of the step, one for each matrix
  FiniteCheck is_finite;

  // With error feedback: gradients and error of the last step, in one [padded_numel]. In the matrices the product of P and Q
  // is still to be taken off to leave the error, if `holds_product`; the plain segments hold the error itself.
  // Without: a copy of the gradients, with zeros behind it, if the matrix is larger than the bucket; else undefined.
  at::Tensor sum;
  bool holds_product = false;
  FactorPair before;  // the P and Q of the last step, while those of this one are made
  bool takes_off_before = false;
};

}  // namespace hookline
