#include "parallel/training_place.h"

#include <algorithm>
#include <utility>

namespace hookline {

using detail::EpochPlan;

void TrainingPlace::add(std::shared_ptr<EpochPlan> loader) {
  loaders_.push_back(std::move(loader));
  loads_.emplace_back();
}

void TrainingPlace::loads(const EpochPlan* loader) {
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (loaders_[i].get() != loader) continue;
    Loads& loads = loads_[i];
    if (loads.count++ > 0) loads.longest_steps = std::max(loads.longest_steps, steps_ - loads.at_step);
    loads.at_step = steps_;
    loads.last = ++all_loads_;
  }
}

bool TrainingPlace::can_be_active(std::size_t loader) const {
  const Loads& loads = loads_[loader];
  const std::int64_t optimizers = std::max<std::int64_t>(1, static_cast<std::int64_t>(last_step_.size()));
  return loaders_[loader]->is_under_way() && loaders_[loader]->loaded_with_gradients() &&
         steps_ - loads.at_step <= std::max(optimizers, loads.longest_steps);
}

bool TrainingPlace::is_preferred(std::size_t loader, std::size_t to) const {
  if (loaders_[loader]->is_cycled() != loaders_[to]->is_cycled()) return loaders_[to]->is_cycled();
  // An iterator that is kept has loaded once; before anything has loaded twice, the last to load is the loop's.
  const bool repeats = loads_[loader].count > 1, other_repeats = loads_[to].count > 1;
  if (repeats != other_repeats) return repeats;
  return repeats ? loader < to : loads_[loader].last > loads_[to].last;
}

void TrainingPlace::trains() {
  active_ = -1;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    loaders_[i]->program_trains();
    if (!can_be_active(i)) continue;
    loaders_[i]->trains(/*drives=*/false);
    if (active_ < 0 || is_preferred(i, static_cast<std::size_t>(active_))) active_ = static_cast<int>(i);
  }
  if (active_ >= 0) loaders_[static_cast<std::size_t>(active_)]->trains(/*drives=*/true);
}

const EpochPlan* TrainingPlace::active_loader() const {
  if (active_ < 0 || !can_be_active(static_cast<std::size_t>(active_))) return nullptr;
  return loaders_[static_cast<std::size_t>(active_)].get();
}

const EpochPlan* TrainingPlace::loader_at_first_batch() const {
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (loads_[i].count == 1 && loaders_[i]->is_under_way() && loaders_[i]->loaded_with_gradients())
      return loaders_[i].get();
  }
  return nullptr;
}

const EpochPlan* TrainingPlace::loader_in_hand() const {
  const EpochPlan* in_hand = nullptr;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (!loaders_[i]->is_under_way() || loads_[i].last <= last) continue;
    in_hand = loaders_[i].get();
    last = loads_[i].last;
  }
  return in_hand;
}

bool TrainingPlace::stepped(std::int64_t number, std::int64_t optimizers) {
  last_step_.resize(static_cast<std::size_t>(optimizers), 0);
  const auto own = last_step_.begin() + (number - 1);
  const std::int64_t before = std::exchange(*own, ++steps_);
  if (number == optimizers) return true;
  if (before == 0) return false;  // those behind it may not have had their turn
  return std::none_of(own + 1, last_step_.end(), [&](std::int64_t step) { return step > before; });
}

}  // namespace hookline
