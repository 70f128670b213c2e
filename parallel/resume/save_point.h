// Decides at which point of the training loop a due checkpoint is saved: where the loop body starts over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "parallel/data/training_place.h"

namespace hookline {

/// Chooses, after each step at which a checkpoint is due, whether it is saved now or before some loader's
/// next batch.
///
/// A resumed program starts by loading a batch, so a checkpoint is exact only if it is saved just before a
/// batch loads, after a complete loop body. If several optimizers step in turn, the save first waits for the
/// last one of the round, since a round may be the loop body. If it is unclear which loader's batch starts
/// the body (the first batch takes several steps, or a step follows the loop), it waits for the most likely
/// loader. It waits for a loader at most until the next checkpoint is due, and for the end of a round for at
/// most as many steps as lie between two checkpoints. Not synchronised.
class SavePoint {
 public:
  SavePoint(std::shared_ptr<TrainingPlace> place, std::int64_t every_steps)
      : place_(std::move(place)), every_steps_(every_steps) {}

  struct Choice {
    const detail::EpochPlan* loader = nullptr;      // before whose next batch; null: now, unless `waits`
    bool waits = false;                             // for that batch, or without a `loader` for a later step
    const detail::EpochPlan* waited_for = nullptr;  // in vain, if it is saved now
  };
  /// Chooses where to save the checkpoint that is due at `steps`. `now`: wait only for a loader that is
  /// certain, or for a round that ends soon.
  Choice choose(std::int64_t steps, bool now);
  /// Call it when `loader`, which the save waits for, is about to load. Returns another loader to wait for
  /// instead, if this load may happen inside the body of that loader's first batch; else null.
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
  const detail::EpochPlan* in_vain_ = nullptr;  // it waited for this loader, which has not loaded since
  std::int64_t loads_in_vain_ = -1;
  bool waited_knowing_ = false;                               // the wait began when rounds were known
  bool round_in_vain_ = false, known_round_in_vain_ = false;  // it waited for the end of one
};

}  // namespace hookline
