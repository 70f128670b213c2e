// A hook that works between hosts, behind an exact average inside each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hooks/comm_hook.h"

namespace hookline {

class World;

/// Sums each bucket exactly over the ranks of a host, and runs `hook` on the sums, with the hosts as its
/// ranks. All ranks of a host run it on the same values, get the same bits and keep the same state; each
/// sends its part of the data between hosts. A host's sum is weighted by its number of ranks, so the hook
/// approximates the average over all ranks.
/// Bucket  1-D floating, numel n           Wire    n elements in the host's memory; between hosts the hook's
/// Result  the hook's                      State   the hook's
/// Errors  the hook's                      Parity  none
/// Source  none; Accelerate and DeepSpeed call a two-level average hierarchical
class BetweenHosts : public CommHook {
 public:
  /// `hook` is built on a Comm of SumScope::between_hosts. A collective call. The World has several hosts,
  /// whose ranks share memory.
  BetweenHosts(World& world, std::unique_ptr<CommHook> hook);
  ~BetweenHosts() override;

  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override { return hook_->describe() + " between hosts"; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const override {
    return hook_->bytes_per_step(buckets, dtype);
  }
  std::int64_t first_full_step() const override { return hook_->first_full_step(); }
  double tolerance(at::ScalarType dtype) const override { return hook_->tolerance(dtype); }
  HookState save_state(const BucketParameters& buckets) const override;
  void load_state(const HookState& state, const BucketParameters& buckets) override;
  /// This rank's part of what its host has held back, scaled to be added to this rank's own gradients.
  std::vector<at::Tensor> held_back(const BucketParameters& buckets) const override;

 private:
  Comm inside_;
  double scale_;                         // of what a rank adds
  std::vector<std::vector<int>> hosts_;  // their ranks
  bool is_first_;                        // of all ranks
  std::shared_ptr<CommHook> hook_;
  std::shared_ptr<InOrder> in_order_;
};

}  // namespace hookline
