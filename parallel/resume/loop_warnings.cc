// Checkpointer's warnings about programs that a checkpoint can't resume exactly.
#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "parallel/resume/checkpointer.h"

namespace hookline {

using detail::EpochPlan;

void Checkpointer::warn_once(bool& told, const std::string& message) const {
  if (!std::exchange(told, true)) warn(message);
}

/// Warns if no prepared loader is trained on: only the program knows how far it is in its own data.
void Checkpointer::warn_of_uncounted_steps() {
  const bool has_loader = std::any_of(loaders_.begin(), loaders_.end(),
                                      [](const auto& each) { return each.second->is_trained_on(); });
  if (has_loader || knows_steps_ || !counts_.empty()) return;
  warn_once(
      told_of_uncounted_steps_,
      "the program trains without a prepared loader, and called neither accelerator.steps_done() nor, "
      "with [training] max_steps, accelerator.should_stop() before its first step: if its loop counts steps "
      "from 0, a run that resumes "
      "takes the same steps again; begin the loop at accelerator.steps_done(), or register its count with "
      "register_for_checkpointing()");
}

void Checkpointer::warn_of_left_loops() {
  if (!counts_.empty()) return;  // one may count the batches
  warn_once(
      told_of_left_loops_,
      "the program leaves its loop over the training loader before the end of each epoch: if it counts the "
      "batches of a loop by itself, a run that resumes in the middle of one counts them from 0 again and "
      "trains on more of them; register the count with register_for_checkpointing(), and set it to 0 "
      "after the loop");
}

/// Called when a checkpoint is saved. `before_batch`: just before a loader's batch, with which the program
/// may switch to the next optimizer.
void Checkpointer::warn_of_save_in_round(bool before_batch) {
  if (!place_->is_in_round()) return;
  if (!place_->knows_round()) {
    saved_in_round_step_ = progress_->steps;  // which may turn out to be the last one of a round
    saved_in_round_before_batch_ = before_batch;
    return;
  }
  tell_of_save_in_round(progress_->steps, before_batch);
}

void Checkpointer::tell_of_save_in_round(std::int64_t step, bool before_batch) {
  const std::string begin =
      "the checkpoint of step " + std::to_string(step) + " was saved between the steps of two optimizers";
  const std::string less_often = "save less often, with a larger checkpoint_every_steps";
  if (!before_batch)
    return warn_once(
        told_of_saved_in_round_,
        begin + ": a run that resumes from it begins with the first optimizer's step; " + less_often);
  if (!counts_.empty()) return;  // one may count the steps of a round
  warn_once(told_of_saved_in_round_,
            begin +
                ", before the next batch: if the program decides by a count of its own which optimizer is "
                "next, a run that resumes from it counts from 0 again; register the count with "
                "register_for_checkpointing(), "
                "or " +
                less_often);
}

/// Warns of loaders that draw random numbers and whose current batch a resumed run would load again.
void Checkpointer::warn_of_random_batches() {
  const bool any = std::any_of(loaders_.begin(), loaders_.end(), [](const auto& each) {
    return each.second->loads_again() && each.second->draws_random_numbers();
  });
  if (any)
    warn_once(
        told_of_random_batches_,
        "the checkpoint of step " + std::to_string(progress_->steps) +
            " is saved after a batch was loaded that is not trained on yet, and loading it drew random "
            "numbers: a run that resumes loads the batch again, with other numbers; load the next batch "
            "after the step, or seed what the dataset draws by the index of the sample");
}

/// Called when a due checkpoint is saved before the next batch of `loader`.
void Checkpointer::warn_of_place(const EpochPlan* loader) {
  warn_of_save_in_round(/*before_batch=*/true);
  if (loader->is_driver() && loader->leaves() && !loader->begins_pass()) warn_of_left_loops();
  const auto other = std::find_if(loaders_.begin(), loaders_.end(), [&](const auto& each) {
    return each.second.get() != loader && each.second->is_driver() && each.second->asks_now() &&
           !each.second->is_under_way();
  });
  if (other == loaders_.end() || !loader->is_driver()) return;
  saved_behind_ = other->second.get();
  saved_behind_step_ = progress_->steps;
  if (loader->is_asked()) return;
  warn_once(
      told_of_other_epoch_,
      "the checkpoint of step " + std::to_string(progress_->steps) +
          " is saved in a loop over one training loader, and the program has called epoch() of another one "
          "only: a run that resumes begins with that other loader, and repeats or leaves out part of this "
          "loop; begin each "
          "loop over epochs at the epoch() of its own loader, or, if one loop over epochs trains on "
          "several loaders, at 0");
}

/// Warns of checkpoints that turn out not to have been saved at the end of the loop's body.
void Checkpointer::warn_of_inexact_saves() {
  if (saved_behind_ && place_->active_loader() == saved_behind_) {
    saved_behind_ = nullptr;
    warn_once(
        told_of_saved_behind_,
        "the checkpoint of step " + std::to_string(saved_behind_step_) +
            " was saved after a loop over the training loader, before the end of the body around it: a "
            "run that resumes from it leaves out the rest of that body; take fewer steps in that rest than "
            "checkpoint_every_steps, or begin the loop over epochs at 0 if it trains on several loaders");
  }
  // The first optimizer steps again, so the previous step was the last of a round.
  if (saved_in_round_step_ > 0 && place_->knows_round()) {
    if (saved_in_round_step_ != progress_->steps - 1)
      tell_of_save_in_round(saved_in_round_step_, saved_in_round_before_batch_);
    saved_in_round_step_ = 0;
  }
  for (const auto& [name, plan] : loaders_)
    if (plan->trains_late())
      warn_once(
          told_of_late_training_,
          "the program loads the next batch before it trains on what it made of the previous one: a run "
          "that resumes leaves out one batch; load the next batch after the step");
  if (place_->goes_by_order() && world_->rank() == 0 && !std::exchange(told_of_order_, true))
    log::info(
        "two prepared loaders are trained on at once, and the program has called epoch() of none or of both: "
        "the one that was prepared first counts as the training loader, whose batches decide where "
        "checkpoints are saved and where gradient accumulation ends early; prepare the training loader "
        "first, or call epoch() of it alone");
}

}  // namespace hookline
