// Wraps a hook for the Reducer so that waiting for it ends when any rank fails.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooks/comm_hook.h"
#include "hooks/ddp/no_hook_name.h"
#include "parallel/ddp/compression_error.h"
#include "parallel/ddp/gradient_recorder.h"
#include "parallel/ddp/gradient_steps.h"

namespace hookline {

/// Runs `hook` on each bucket, and hands the Reducer futures that the World's FailureWatch completes.
class GuardedHook : public c10d::CommHookInterface {
 public:
  /// `recorder`, if there is one, gets each bucket before the hook does; so does `error`, if there is one.
  GuardedHook(std::shared_ptr<GradientSteps> steps, std::unique_ptr<CommHook> hook,
              std::unique_ptr<GradientRecorder> recorder, std::unique_ptr<CompressionError> error);

  FuturePtr runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

  CommHook& hook() { return *hook_; }
  /// Adds to each bucket of the next step, before the hook gets it, what another hook has held back of its
  /// gradients.
  void carry(std::vector<at::Tensor> held_back) { carried_ = std::move(held_back); }
  /// For the hook that takes this one's place.
  std::unique_ptr<GradientRecorder> take_recorder() { return std::move(recorder_); }
  /// Sets the step at which this hook replaced another one. Steps at which its error is measured count from
  /// there.
  void came_at(std::int64_t step) { first_ = step; }
  std::optional<double> take_compression_error();
  /// The error that take_compression_error() returned last; none if it has returned none.
  std::optional<double> latest_compression_error() const { return latest_error_; }

 private:
  std::shared_ptr<GradientSteps> steps_;
  std::unique_ptr<CommHook> hook_;
  std::unique_ptr<GradientRecorder> recorder_;
  std::unique_ptr<CompressionError> error_;
  std::vector<at::Tensor> carried_;
  std::string name_;  // as the hook describes itself
  std::int64_t first_ = 0;
  std::optional<double> latest_error_;
};

/// What the Reducer does without a hook, except that it scales a bucket by 1 / world size once the bucket is
/// full, then sums; the Reducer scales gradients as it copies them. For what has to happen to gradients
/// before they are scaled: recording them, or adding what another hook has held back.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the collective
/// Result  the bucket's buffer, in place   State   none
/// Errors  none at step time               Parity  DistributedDataParallel without a hook, bit for bit
/// Source  none
class NoHook : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override { return kNoHook; }
};

}  // namespace hookline
