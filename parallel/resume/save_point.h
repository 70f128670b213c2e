// When a due checkpoint is saved: where the loop's body begins anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "parallel/data/training_place.h"

namespace hookline {

/// Chooses, after each step at which a checkpoint is due, whether it is saved now or before some loader's next batch.
///
/// A resumed program begins with a batch, so a checkpoint is exact only if it is saved just before one, with the whole body of the
/// loop done. If several optimizers step in turn, it waits for the last one of a round first, since a round may be the body; and if
/// it is not sure which loader's batch begins the body (the first batch takes several steps; a step comes behind the loop), for the
/// most likely one. It waits for a loader no longer than until the next checkpoint is due, and for the end of a round no more than as
/// many steps as lie between two. Not synchronised.
class SavePoint {
 public:
  SavePoint(std::shared_ptr<TrainingPlace> place, std::int64_t every_steps)
      : place_(std::move(place)), every_steps_(every_steps) {}

  struct Choice {
    const detail::EpochPlan* loader = nullptr;      // before whose next batch; null: now, unless `waits`
    bool waits = false;                             // for a later step
    const detail::EpochPlan* waited_for = nullptr;  // in vain, if it is saved now
  };
  /// `now`: it waits only for what is sure, or near.
  Choice choose(std::int64_t steps, bool now);
  /// `loader`, for which it waited, is about to load. The one to wait for instead, if `loader` may be in the body of that one's
  /// first batch; null: none.
  const detail::EpochPlan* moved_from(const detail::EpochPlan* loader, std::int64_t steps);
  /// A checkpoint was saved.
  void saved() {
    loader_since_.reset();
    round_since_.reset();
  }

 private:
  bool may_wait_for(const detail::EpochPlan* loader, std::int64_t steps, std::int64_t loads);
  bool may_wait_for_round(std::int64_t steps);

  std::shared_ptr<TrainingPlace> place_;
  std::int64_t every_steps_;
  std::optional<std::int64_t> loader_since_, round_since_;  // the steps at which waits began
  const detail::EpochPlan* in_vain_ = nullptr;  // it waited for this one, and has not loaded since
  std::int64_t loads_in_vain_ = -1;
  bool waited_knowing_ = false;                               // rounds, for the end of this one
  bool round_in_vain_ = false, known_round_in_vain_ = false;  // it waited for the end of one
};

}  // namespace hookline
