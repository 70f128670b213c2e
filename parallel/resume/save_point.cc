#include "parallel/resume/save_point.h"

namespace hookline {

bool SavePoint::may_wait_for(const detail::EpochPlan* loader, std::int64_t steps, std::int64_t loads) {
  if (loader == in_vain_ && loads == loads_in_vain_) return false;
  if (!loader_since_) loader_since_ = steps;
  if (steps / every_steps_ <= *loader_since_ / every_steps_) return true;
  in_vain_ = loader;
  loads_in_vain_ = loads;
  loader_since_.reset();
  return false;
}

bool SavePoint::may_wait_for_round(std::int64_t steps) {
  const bool knows = place_->knows_round();
  bool& in_vain = knows ? known_round_in_vain_ : round_in_vain_;
  if (in_vain) return false;
  // A wait that began before rounds were known may have been for no round's end: count it anew.
  if (!round_since_ || knows != waited_knowing_) round_since_ = steps;
  waited_knowing_ = knows;
  if (steps < *round_since_ + every_steps_) return true;
  in_vain = true;
  round_since_.reset();
  return false;
}

SavePoint::Choice SavePoint::choose(std::int64_t steps, bool now) {
  if (place_->is_in_round() && (!now || place_->round_continues()) && may_wait_for_round(steps))
    return {nullptr, true};
  const TrainingPlace::Next next = place_->next_body();
  if (next.loader && (next.is_sure || (!now && may_wait_for(next.loader, steps, next.loads))))
    return {next.loader, true};
  if (const detail::EpochPlan* active = place_->active_loader()) return {active, true};
  return {nullptr, false, next.loader};
}

const detail::EpochPlan* SavePoint::moved_from(const detail::EpochPlan* loader, std::int64_t steps) {
  if (loader == place_->active_loader() && loader->is_asked()) return nullptr;
  const detail::EpochPlan* other = place_->loader_at_first_batch(loader);
  return other && may_wait_for(other, steps, 1) ? other : nullptr;
}

}  // namespace hookline
