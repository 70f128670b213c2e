#include "parallel/data/training_place.h"

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
    if (loader->begins_pass()) loads.first_of_pass = loads.last;
    loads.is_in_round = loads.is_in_round || (knows_round() && is_in_round());
  }
}

bool TrainingPlace::can_be_active(std::size_t loader) const {
  const Loads& loads = loads_[loader];
  const std::int64_t optimizers = std::max<std::int64_t>(1, static_cast<std::int64_t>(last_step_.size()));
  return loaders_[loader]->is_under_way() && loaders_[loader]->loaded_with_gradients() &&
         steps_ - loads.at_step <= std::max(optimizers, loads.longest_steps);
}

bool TrainingPlace::is_preferred(std::size_t loader, std::size_t to) {
  const EpochPlan &own = *loaders_[loader], &other = *loaders_[to];
  if (own.is_cycled() != other.is_cycled()) return other.is_cycled();
  if (own.is_asked() != other.is_asked()) return own.is_asked();
  const bool in_round = loads_[loader].is_in_round, other_in_round = loads_[to].is_in_round;
  if (in_round != other_in_round) return other_in_round;
  if (own.led_when_saved() != other.led_when_saved()) return own.led_when_saved();
  // A loader whose iterator the program keeps has loaded only once. If neither has loaded twice, the last to
  // load is the loop's.
  const bool repeats = loads_[loader].count > 1, other_repeats = loads_[to].count > 1;
  if (repeats != other_repeats) return repeats;
  goes_by_order_ = goes_by_order_ || repeats;
  return repeats ? loader < to : loads_[loader].last > loads_[to].last;
}

void TrainingPlace::trains() {
  active_ = -1;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    loaders_[i]->program_trains();
    if (!can_be_active(i)) continue;
    loaders_[i]->gives_gradients();
    loads_[i].in_gradients = true;
    if (active_ < 0 || is_preferred(i, static_cast<std::size_t>(active_))) active_ = static_cast<int>(i);
  }
}

void TrainingPlace::steps() {
  trains();
  int driver = active_;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (!loads_[i].in_gradients) continue;
    loaders_[i]->drives(false);
    // A step after the loop uses the gradients of the loop's batches.
    if (active_ < 0 && (driver < 0 || is_preferred(i, static_cast<std::size_t>(driver))))
      driver = static_cast<int>(i);
  }
  gradients_dropped();
  if (driver < 0) return;
  loaders_[static_cast<std::size_t>(driver)]->drives(true);
  for (std::size_t i = 0; i < loaders_.size(); ++i) loaders_[i]->leads(static_cast<int>(i) == driver);
  last_driver_ = driver;
}

void TrainingPlace::gradients_dropped() {
  for (Loads& loads : loads_) loads.in_gradients = false;
}

const EpochPlan* TrainingPlace::active_loader() const {
  if (active_ < 0 || !can_be_active(static_cast<std::size_t>(active_))) return nullptr;
  return loaders_[static_cast<std::size_t>(active_)].get();
}

const EpochPlan* TrainingPlace::loader_at_first_batch(const EpochPlan* loader) const {
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (loaders_[i].get() != loader && loads_[i].count == 1 && loaders_[i]->is_under_way() &&
        loaders_[i]->loaded_with_gradients())
      return loaders_[i].get();
  }
  return nullptr;
}

/// The loader, other than the active one, whose next batch is the most likely beginning of the loop's next
/// body.
std::optional<std::size_t> TrainingPlace::loader_to_return_to() const {
  const EpochPlan* active = active_loader();
  if (active && active->is_asked()) return {};
  const auto at_first_batch = loader_at_first_batch(active);
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    // The program starts its epoch loop at this loader's epoch(), and is now in a loop over another loader.
    if (loaders_[i].get() != active && loaders_[i]->is_driver() && loaders_[i]->asks_now()) return i;
    if (loaders_[i].get() == at_first_batch) first = i;
  }
  if (at_first_batch) return first;
  // No loader is active: either the last driver's latest batch takes more steps than the ones before, or its
  // loop has ended and the rest of the enclosing body runs.
  if (!active && last_driver_ >= 0) return static_cast<std::size_t>(last_driver_);
  return {};
}

TrainingPlace::Next TrainingPlace::next_body() const {
  const auto other = loader_to_return_to();
  if (!other) return {active_loader(), true, 0};
  const Loads& loads = loads_[*other];
  return {loaders_[*other].get(), loads.count > 1 && steps_ - loads.at_step <= loads.longest_steps,
          loads.count};
}

bool TrainingPlace::is_nested(const EpochPlan* loader) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < loaders_.size(); ++i)
    if (loaders_[i].get() == loader) first = loads_[i].first_of_pass;
  for (std::size_t i = 0; i < loaders_.size(); ++i)
    if (loads_[i].last < first && loaders_[i]->is_amid_training()) return true;
  return false;
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

bool TrainingPlace::is_in_round() const {
  return !ends_round() && !(active_loader() && last_round_ >= active_loader()->batches());
}

bool TrainingPlace::stepped(std::int64_t number, std::int64_t optimizers) {
  last_step_.resize(static_cast<std::size_t>(optimizers), 0);
  if (first_stepped_ == 0) first_stepped_ = number;
  if (number == first_stepped_ && last_stepped_ != 0 && last_stepped_ != number) {
    last_of_round_ = last_stepped_;
    last_round_ = std::exchange(steps_of_round_, 0);
  }
  ++steps_of_round_;
  last_stepped_ = number;
  const auto own = last_step_.begin() + (number - 1);
  const std::int64_t before = std::exchange(*own, ++steps_);
  if (number == optimizers) return true;
  if (before == 0) return false;  // later optimizers may not have stepped yet
  return std::none_of(own + 1, last_step_.end(), [&](std::int64_t step) { return step > before; });
}

}  // namespace hookline
