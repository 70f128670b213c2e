#include "parallel/save_point.h"

namespace hookline {

bool SavePoint::may_wait(std::int64_t steps, const detail::EpochPlan* loader, std::int64_t loads) {
  if (loader == in_vain_ && loads == loads_in_vain_) return false;
  if (!since_) since_ = steps;
  if (steps / every_steps_ <= *since_ / every_steps_) return true;
  in_vain_ = loader;
  loads_in_vain_ = loads;
  since_.reset();
  return false;
}

SavePoint::Choice SavePoint::choose(std::int64_t steps, bool now) {
  const TrainingPlace::Next next = place_->next_body();
  if (next.loader && (next.is_sure || (!now && may_wait(steps, next.loader, next.loads))))
    return {next.loader, true};
  if (const detail::EpochPlan* active = place_->active_loader()) return {active, true};
  const bool waits = !place_->ends_round() && !now &&
                     (place_->round_goes_on() || may_wait(steps, nullptr, place_->knows_round()));
  return {nullptr, waits, next.loader};
}

const detail::EpochPlan* SavePoint::moved_from(const detail::EpochPlan* loader, std::int64_t steps) {
  if (loader == place_->active_loader() && loader->is_asked()) return nullptr;
  const detail::EpochPlan* other = place_->loader_at_first_batch(loader);
  return other && may_wait(steps, other, 1) ? other : nullptr;
}

}  // namespace hookline
