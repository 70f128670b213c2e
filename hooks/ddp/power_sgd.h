// PowerSGD: gradients as products of two thin matrices.
#pragma once

#include <memory>
#include <string>

#include "hooks/comm_hook.h"
#include "hooks/ddp/power_sgd_layout.h"
#include "hooks/per_bucket.h"

namespace hookline {

struct PowerSgdBucket;

/// How a bucket is cut into matrices: per_gradient_layout or whole_bucket_layout.
using LayoutFunction = PowerSgdLayout (*)(const BucketShapes&, const PowerSgdOptions&);

/// Averages gradients as rank-r products P·Qᵀ, after start_powerSGD_iter steps of plain averaging; two steps
/// earlier if the context's buckets are final, since DDP otherwise needs two steps to rebuild them.
/// Each matrix M [n, m] of the bucket goes through: M += error; P = M·Q, summed over ranks, orthogonalized;
/// Q = Mᵀ·P, averaged over ranks; the result is P·Qᵀ. The error M − P·Qᵀ is formed when the next step adds it
/// to its gradients, or when it is saved. What is not compressed is averaged with P.
/// Bucket  1-D floating, numel n           Wire    Σ (n + m)·r elements and the plain ones; two collectives
/// Result  the bucket's buffer, in place   State   per bucket, keyed by its parameters: M (numel n), P and
///                                                 Q twice; starts afresh if DDP rebuilds its buckets
/// Errors  HookError at step time if the gradients are neither on the CPU nor on a GPU, or not finite (on a
///         GPU: one step later, so that the host need not wait); options are checked by Registry::build
/// Parity  powerSGD_hook.powerSGD_hook; batched_powerSGD_hook with whole_bucket_layout. They differ in
///         rounding only, but for a zero matrix (NaN there, zero here).
/// Source  Vogels, Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019, arXiv 1905.13727, algorithms 1 and 2
class PowerSgd : public CommHook {
 public:
  /// `name` is the catalog's; `options` are complete and checked, as Registry::build hands them on.
  PowerSgd(HookContext context, const OptionMap& options, std::string name, LayoutFunction layout);
  ~PowerSgd() override;

  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override;
  std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const override;
  std::int64_t first_full_step() const override { return options_.start_powerSGD_iter; }
  /// Shared: each bucket's P and Q; the steps so far and the positions of the random streams. Own: the error.
  HookState save_state(const BucketParameters& buckets) const override;
  void load_state(const HookState& state, const BucketParameters& buckets) override;
  std::vector<at::Tensor> held_back(const BucketParameters& buckets) const override;

 private:
  class Statistics;

  std::shared_ptr<PowerSgdBucket> bucket_of(const GradBucket& bucket);
  std::shared_ptr<PowerSgdBucket> make_bucket(const BucketShapes& shapes,
                                              const at::TensorOptions& like) const;
  void start_q(PowerSgdBucket& state);
  void expect_finite(PowerSgdBucket& state, const at::Tensor& gradients) const;

  std::string name_;
  PowerSgdOptions options_;
  LayoutFunction layout_;
  SeedStream seeds_;
  std::shared_ptr<OrderedChannel> q_channel_;
  std::int64_t iteration_ = 0;
  std::uint64_t redraws_ = 0;
  PerBucket<std::shared_ptr<PowerSgdBucket>> buckets_;
  std::unique_ptr<Statistics> statistics_;
};

}  // namespace hookline
