// When a due checkpoint is saved: where the loop's body begins anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "parallel/training_place.h"

namespace hookline {

/// Chooses, after each step at which a checkpoint is due, whether it is saved now or before some loader's next batch.
///
/// A resumed program begins with a batch, so a checkpoint is exact only if it is saved just before one, with the whole body of the
/// loop done. If it is not sure which loader's batch that is (the first batch takes several steps; a step comes behind the loop),
/// the checkpoint waits for the most likely one, but no longer than until the next checkpoint is due; and, without a loader, as long
/// for the end of a round of several optimizers. Not synchronised.
class SavePoint {
 public:
  SavePoint(std::shared_ptr<TrainingPlace> place, std::int64_t every_steps)
      : place_(std::move(place)), every_steps_(every_steps) {}

  struct Choice {
    const detail::EpochPlan* loader = nullptr;      // before whose next batch; null: now, unless `waits`
    bool waits = false;                             // for a later step
    const detail::EpochPlan* waited_for = nullptr;  // in vain, if it is saved now
  };
  /// `now`: it can't wait for what is not sure.
  Choice choose(std::int64_t steps, bool now);
  /// `loader`, for which it waited, is about to load. The one to wait for instead, if `loader` may be in the body of that one's
  /// first batch; null: none.
  const detail::EpochPlan* moved_from(const detail::EpochPlan* loader, std::int64_t steps);
  /// A checkpoint was saved.
  void saved() { since_.reset(); }

 private:
  bool may_wait(std::int64_t steps, const detail::EpochPlan* loader, std::int64_t loads);

  std::shared_ptr<TrainingPlace> place_;
  std::int64_t every_steps_;
  std::optional<std::int64_t> since_;           // the step at which the wait for what is not sure began
  const detail::EpochPlan* in_vain_ = nullptr;  // it waited for this one, and has not loaded since
  std::int64_t loads_in_vain_ = -1;
};

}  // namespace hookline
