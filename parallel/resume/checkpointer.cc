#include "parallel/resume/checkpointer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "base/text/time_text.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/manifest.h"
#include "parallel/resume/loader_state.h"
#include "parallel/resume/random_state.h"
#include "tracking/trackers.h"

namespace hookline {

using detail::EpochPlan;

namespace {

const char* const kProgressPart = "progress";
const char* const kHookNote = "hook";
const char* const kBeginAtEpoch =
    ": begin the loop over epochs at loader.epoch(), for (auto epoch = loader.epoch(); …)";

SavedPart save_progress(const detail::TrainingProgress& progress, bool has_ended) {
  SavedPart saved;
  saved.notes = {{"steps", progress.steps},
                 {"micro_steps", progress.micro_steps},
                 {"sync_gradients", progress.sync_gradients},
                 {"has_ended", has_ended}};
  return saved;
}

void load_progress(detail::TrainingProgress& progress, const SavedPart& saved, Resumption& resumption) {
  saved.notes.at("steps").get_to(progress.steps);
  if (resumption.same_ranks()) {
    saved.notes.at("micro_steps").get_to(progress.micro_steps);
    saved.notes.at("sync_gradients").get_to(progress.sync_gradients);
  } else if (saved.notes.at("micro_steps").get<std::int64_t>() != 0) {
    resumption.resets.push_back("gradients that had been accumulated since the last optimizer step");
  }
}

/// The step of the checkpoint that `resume` names; -1 if it names none, or one that is no longer there.
std::int64_t step_of_named(const TrainingConfig& config) {
  if (!config.resumes_by_name()) return -1;
  try {
    return read_manifest(locate(config.resume)).step;
  } catch (const Error&) {  // pruned since this run has saved newer ones, else opening it says what is wrong
    return -1;
  }
}

}  // namespace

Checkpointer::Checkpointer(std::shared_ptr<World> world, const TrainingConfig& config, const Attempt& attempt,
                           std::shared_ptr<detail::TrainingProgress> progress,
                           std::shared_ptr<TrainingPlace> place)
    : world_(std::move(world)),
      config_(config),
      progress_(std::move(progress)),
      place_(std::move(place)),
      save_point_(place_, config_.checkpoint_every_steps.value_or(1)) {
  if (config_.checkpoint_every_steps) {
    preemption_.emplace(world_);
    claim_.emplace(world_, config_, attempt);
  }
  const bool has_own = claim_ && claim_->had_it();
  if (config_.resume == "auto" || has_own) {
    auto newest = OpenCheckpoint::newest(*world_, config_.checkpoint_dir, step_of_named(config_));
    if (newest) resume_from(std::move(newest));
    if (!from_ && !config_.resumes_by_name() && world_->rank() == 0)
      log::info("no checkpoint in checkpoint_dir '" + config_.checkpoint_dir + "': starting at step 0");
  }
  if (!from_ && config_.resumes_by_name()) resume_from(OpenCheckpoint::open(*world_, config_.resume));
  if (claim_ && !has_own) claim_->take(from_ ? std::optional(from_->manifest().step) : std::nullopt);
  add({kProgressPart, [this] { return save_progress(*progress_, has_ended_); },
       [this](const SavedPart& saved, Resumption& resumption) {
         load_progress(*progress_, saved, resumption);
         has_ended_ = saved.notes.value("has_ended", false);
         const bool has_all_steps = config_.max_steps && progress_->steps >= *config_.max_steps;
         if ((has_ended_ || has_all_steps) && !by_hand_ && world_->rank() == 0)
           log::info("this run finished at step " + std::to_string(progress_->steps) +
                     ": it trains further only if the program asks for more steps");
       }});
  first_step_ = last_saved_step_ = progress_->steps;
  add({kRandomPart, [this] { return save_random(world_->device()); },
       [this](const SavedPart&, Resumption&) { first_batch_is_due_ = true; }});
}

CheckpointSaver& Checkpointer::saver() {
  if (!saver_) saver_ = std::make_unique<CheckpointSaver>(world_);
  return *saver_;
}

void Checkpointer::resume_from(std::unique_ptr<OpenCheckpoint> checkpoint) {
  from_ = std::move(checkpoint);
  const Manifest& manifest = from_->manifest();
  resumption_ = {from_->folder().string(), manifest.world_size, world_->size(), {}};
  if (world_->rank() == 0)
    log::info("resuming from step " + std::to_string(manifest.step) + ": checkpoint '" +
              resumption_.checkpoint + "' of " + time_text(manifest.saved_at));
}

std::string Checkpointer::next_name(const std::string& kind) const {
  const auto taken = std::count_if(parts_.begin(), parts_.end(), [&](const CheckpointPart& part) {
    return part.name == kind || part.name.starts_with(kind + "_");
  });
  return taken == 0 ? kind : kind + "_" + std::to_string(taken);
}

void Checkpointer::add(CheckpointPart part) {
  part.name = next_name(part.name);
  add_as_named(std::move(part));
}

void Checkpointer::add_as_named(CheckpointPart part) {
  parts_.push_back(std::move(part));
  if (from_) restore(parts_.back());
}

void Checkpointer::add(std::shared_ptr<detail::EpochPlan> loader) {
  const std::string name = next_name("loader");
  loaders_[name] = loader;
  add_as_named({name, [loader, ranks = world_->size()] { return save_position(*loader, ranks); },
                [this, loader](const SavedPart& saved, Resumption& resumption) {
                  load_position(*loader, saved, resumption, by_hand_);
                }});
}

void Checkpointer::add_object(const std::string& name, detail::TensorAccess access, bool counts) {
  const std::string part = "object." + name;
  const bool fits = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  if (!fits)
    throw Error("register_for_checkpointing: '" + name +
                "' can't name a file: use letters, digits, '_' and '-'");
  if (std::any_of(parts_.begin(), parts_.end(),
                  [&](const CheckpointPart& known) { return known.name == part; }))
    throw Error("register_for_checkpointing: '" + name +
                "' is registered already: each object needs a name of its own");
  if (counts) counts_.emplace_back(name, access);
  add_as_named({part,
                [access] {
                  SavedPart saved;
                  if (const at::Tensor tensor = access.save(); tensor.defined())
                    saved.shared["value"] = tensor;
                  return saved;
                },
                [access](const SavedPart& saved, Resumption&) {
                  if (const auto value = saved.shared.find("value"); value != saved.shared.end())
                    access.load(value->second);
                }});
}

void Checkpointer::restore(const CheckpointPart& part) {
  if (!from_->holds(part.name)) {
    resumption_.resets.push_back("'" + part.name + "', of which the checkpoint has nothing");
  } else {
    try {
      part.load(from_->part(part.name), resumption_);
    } catch (const nlohmann::json::exception& error) {
      throw Error("the checkpoint '" + resumption_.checkpoint + "' holds '" + part.name +
                  "' in a form that this hookline does not read: " + error.what());
    }
  }
  resumption_.tell_resets(world_->rank() == 0);
}

void Checkpointer::restore_random() {
  load_random(world_->device(), from_->part(kRandomPart), resumption_);
  // Only rank 0 logs, and it is none of those that the checkpoint lacks.
  if (resumption_.ranks > resumption_.saved_ranks)
    resumption_.resets.push_back("random numbers of the " +
                                 count_text(resumption_.ranks - resumption_.saved_ranks, "rank") +
                                 " that the saved run did not have");
  if (std::exchange(random_was_told_, true)) resumption_.resets.clear();
  resumption_.tell_resets(world_->rank() == 0);
}

void Checkpointer::prepared() {
  if (first_batch_is_due_) restore_random();
}

void Checkpointer::warn(const std::string& message) const {
  if (world_->rank() == 0) log::warning(message);
}

/// Decides whether the loops that were done before the resume get no batches. A program that counts epochs
/// from 0 repeats these loops; one that restored its own count does not.
bool Checkpointer::skips_done_passes(std::int64_t passes, std::int64_t trained) {
  const bool knows =
      std::any_of(loaders_.begin(), loaders_.end(), [](const auto& each) { return each.second->asks_now(); });
  if (knows) return false;  // the program asks one of its training loaders
  const bool is_told = std::exchange(told_of_skips_, true);
  const auto is_count = [&](const auto& object) {
    const at::Tensor value = object.second.save();
    if (value.scalar_type() != at::kLong || value.dim() != 0) return true;  // may hold anything
    const auto count = value.template item<std::int64_t>();
    return count == trained || count == trained + 1;
  };
  const auto count = std::find_if(counts_.begin(), counts_.end(), is_count);
  if (count != counts_.end()) {
    if (!is_told)
      warn("the run resumes after " + count_text(passes, "loop") +
           " over the training loader, and the program has not called loader.epoch(); '" + count->first +
           "', which it registered, is taken for its count of epochs, so none of its loops is skipped" +
           kBeginAtEpoch);
    return false;
  }
  if (world_->rank() == 0 && !is_told)
    log::info("the program has not called loader.epoch(): the loops that were done before the run resumed (" +
              count_text(passes, "loop") + " over the training loader) get no batch; to leave them out" +
              kBeginAtEpoch);
  return true;
}

void Checkpointer::restore_before_first_batch(const detail::EpochPlan* loader) {
  // Evaluations before the first training batch must leave no trace, so restore just before that batch.
  // Without a training loader, any batch counts as the first.
  bool trains = false, is_training = false;
  for (const auto& [name, plan] : loaders_) {
    trains = trains || plan->is_driver();
    is_training = is_training || (plan->is_driver() && plan.get() == loader);
  }
  if (trains && !(is_training && at::GradMode::is_enabled())) return;
  restore_again(has_skipped_passes());
}

/// Restores the random state and the positions of loaders whose done loops are not skipped. With
/// `bodies_ran`, also restores all other parts: skipped loops got no batches, but the code around them ran,
/// such as a scheduler's step.
void Checkpointer::restore_again(bool bodies_ran) {
  for (const CheckpointPart& part : parts_) {
    if (!from_->holds(part.name)) continue;
    const auto found = loaders_.find(part.name);
    const bool again =
        found == loaders_.end() ? bodies_ran : !found->second->may_skip() && !found->second->is_under_way();
    if (again && part.name != kRandomPart) part.load(from_->part(part.name), resumption_);
  }
  resumption_.resets.clear();  // they are logged already
  restore_random();
  first_batch_is_due_ = false;
}

bool Checkpointer::has_skipped_passes() const {
  return std::any_of(loaders_.begin(), loaders_.end(),
                     [](const auto& each) { return each.second->skipped_passes() > 0; });
}

/// The program only looked at batches: what applies just before a batch applies again to the next one.
void Checkpointer::pass_taken_back(const EpochPlan* loader) {
  if (from_ && !has_skipped_passes()) first_batch_is_due_ = true;
  if (saved_before_batch_of_ == loader) waits_for_ = loader;  // save again, with what the program did since
}

void Checkpointer::has_trained() {
  if (ends_when_it_trains_) end_for_later();
  saved_before_batch_of_ = nullptr;
  first_batch_is_due_ = false;
  if (!from_) return;
  from_.reset();
  if (std::exchange(has_ended_, false) && world_->rank() == 0)
    log::info("the run that finished at step " + std::to_string(progress_->steps) +
              " continues, which is right if you asked for more epochs or steps. If the program had stopped "
              "early by a decision of its own, register the state behind that decision with "
              "register_for_checkpointing(), and test it before the first step");
  for (const auto& [name, plan] : loaders_)
    if (plan->is_driver() && plan->asks_no_longer())
      warn(std::string(
               "the program that saved the checkpoint had called loader.epoch() before it trained, and this "
               "one has not: if its loop over epochs begins at 0, it trains epochs again") +
           kBeginAtEpoch);
  for (const auto& [name, plan] : loaders_)
    if (plan->is_driver() && plan->leaves() && plan->is_resumed_in_the_middle()) warn_of_left_loops();
}

void Checkpointer::before_batch(const detail::EpochPlan* loader) {
  if (first_batch_is_due_) restore_before_first_batch(loader);
  // An evaluation over the same loader is part of what precedes the next training batch.
  if (waits_for_ != loader || !at::GradMode::is_enabled() || loader->may_be_look()) return;
  if (const EpochPlan* other = is_to_stop_ ? nullptr : save_point_.moved_from(loader, progress_->steps)) {
    waits_for_ = other;
    return;
  }
  warn_of_place(loader);
  save_due();
  saved_before_batch_of_ = loader;
}

bool Checkpointer::is_due() const {
  if (!config_.checkpoint_every_steps) return false;
  const std::int64_t every = *config_.checkpoint_every_steps;
  if (is_to_stop_) return true;
  return progress_->steps / every > last_saved_step_ / every;
}

void Checkpointer::step_done() {
  has_trained();
  if (!std::exchange(has_stepped_, true) && first_step_ > 0) warn_of_uncounted_steps();
  warn_of_inexact_saves();
  if (preemption_ && !is_to_stop_) is_to_stop_ = preemption_->look(progress_->steps);
  if (!is_due()) return;
  const SavePoint::Choice choice = save_point_.choose(progress_->steps, is_to_stop_);
  waits_for_ = choice.loader;
  if (!choice.waits) save_without_loader(choice.waited_for);
}

/// Saves now: batches come from no prepared loader, or the save waited in vain for `waited_for` to load.
void Checkpointer::save_without_loader(const EpochPlan* waited_for) {
  if (waited_for && !waited_for->is_under_way()) {
    saved_behind_ = waited_for;
    saved_behind_step_ = progress_->steps;
  }
  if (!waited_for) warn_of_save_in_round(/*before_batch=*/false);
  if (waited_for && waited_for->is_under_way() && !std::exchange(told_of_mid_batch_, true))
    warn(
        "the checkpoint of step " + std::to_string(progress_->steps) +
        " is saved while a batch of a prepared loader is in hand: if the program takes more steps on that "
        "batch, a run that resumes continues with the next one; save less often than once in a batch, with a "
        "larger checkpoint_every_steps");
  save_due();
}

void Checkpointer::backward_done() {
  has_trained();
  constexpr std::int64_t kAccumulatedByHand = 100;  // a program may run so many per step
  if (!config_.checkpoint_every_steps || progress_->steps != first_step_) return;
  const std::int64_t due = *config_.checkpoint_every_steps * config_.gradient_accumulation_steps;
  if (++backwards_ != 2 * due + kAccumulatedByHand) return;
  warn("no checkpoint can be saved: backward() has run " + std::to_string(backwards_) +
       " times, but no optimizer that prepare() returned has made a step, and checkpoints are saved between "
       "their steps; call step() of the prepared optimizer");
}

void Checkpointer::save_due() {
  warn_of_uncounted_steps();
  warn_of_random_batches();
  save_point_.saved();
  const EpochPlan* const waited_for = std::exchange(waits_for_, nullptr);
  last_saved_step_ = progress_->steps;
  ++tries_;
  const std::filesystem::path folder = config_.checkpoint_dir;
  const auto prune = [saves = saves_, folder, keep = config_.checkpoint_keep_last, step = progress_->steps] {
    ++*saves;
    try {
      prune_checkpoints(folder, keep, step);
    } catch (const Error& error) {
      log::warning(std::string("older checkpoints stay: ") + error.what());
    }
  };
  const auto name = folder / checkpoint_name(progress_->steps);
  if (config_.checkpoint_async && !is_to_stop_) return saver().save_in_background(name, content(), prune);
  const bool at_start_of_pass = waited_for && waited_for->begins_pass();
  const bool saved = saver().save(name, content(), prune);
  if (!is_to_stop_) return;
  // This pass may be a measurement on the training samples, with the rest of the epoch's body after it. So
  // exit only once the program trains.
  if (saved) ends_when_it_trains_ = at_start_of_pass;
  if (saved && !at_start_of_pass) end_for_later();
  if (saved) return;
  is_to_stop_ = false;  // saving failed: train on until the process is killed
  preemption_->ignore();
}

void Checkpointer::end_for_later() {
  if (world_->rank() == 0)
    log::info("stopping at step " + std::to_string(progress_->steps) +
              ", because of SIGUSR1: with resume = \"auto\" the next launch resumes from here");
  world_->barrier("the barrier after SIGUSR1");
  Trackers::end_all(RunEnd::later);
  std::fflush(nullptr);
  std::_Exit(kSavedForLater);
}

CheckpointContent Checkpointer::content() const {
  CheckpointContent content;
  content.step = progress_->steps;
  for (const CheckpointPart& part : parts_) content.parts.emplace(part.name, part.save());
  const auto hook = content.parts.find(kHookNote);
  content.hook = hook == content.parts.end() ? "no model" : hook->second.notes.value("hook", "");
  return content;
}

bool Checkpointer::save_state(const std::filesystem::path& folder) {
  ++tries_;
  const bool saved = saver().save(folder, content(), {});
  if (saved) ++*saves_;
  return saved;
}

void Checkpointer::load_state(const std::filesystem::path& folder) {
  if (saver_) saver_->wait();
  resume_from(OpenCheckpoint::open(*world_, folder));
  by_hand_ = true;
  for (const CheckpointPart& part : parts_) restore(part);
  by_hand_ = false;
  for (const auto& [name, loader] : loaders_) {
    if (const auto at = loader->position(); world_->rank() == 0 && loader->is_driver() && at.passes > 0)
      log::info("the training loader resumes in epoch " + std::to_string(at.epoch) +
                ": begin the loop over epochs at loader.epoch()");
  }
  restore_random();
  first_batch_is_due_ = false;
  last_saved_step_ = progress_->steps;
  waits_for_ = nullptr;
  from_.reset();
}

void Checkpointer::finish() {
  // No training batch came, so what the bodies of skipped loops changed was not restored yet.
  if (from_ && has_skipped_passes()) restore_again(/*bodies_ran=*/true);
  const bool is_stopped = config_.max_steps && progress_->steps >= *config_.max_steps;
  if (!from_) has_ended_ = !is_stopped;
  if (config_.checkpoint_every_steps && (waits_for_ || progress_->steps != last_saved_step_)) save_due();
  if (saver_) saver_->wait();
}

std::string Checkpointer::reason_for_none() const {
  const std::int64_t steps = progress_->steps - first_step_;
  if (tries_ == 1) return "the only attempt failed, for the reason that was logged then";
  if (tries_ > 0)
    return "each of " + std::to_string(tries_) + " attempts failed, for the reasons that were logged then";
  if (steps == 0)
    return "no optimizer that prepare() returned has made a step; call step() of the prepared optimizer";
  return "it took " + count_text(steps, "step") +
         ", too few to reach the next checkpoint, and the program did not call accelerator.end_training(), "
         "which saves the end";
}

void Checkpointer::remind() noexcept {
  if (!config_.checkpoint_every_steps || std::uncaught_exceptions() > 0) return;
  try {
    if (world_->watch().failure()) return;
    if (saver_) saver_->wait();
    if (is_due() && !ends_when_it_trains_) {
      warn("the checkpoint due at step " + std::to_string(progress_->steps) +
           " was not saved: the program ended before its loader's next batch, and without "
           "accelerator.end_training(), which saves the end; call it after the training loop");
    } else if (world_->rank() == 0 && *saves_ == 0 && (first_step_ == 0 || progress_->steps != first_step_)) {
      warn("checkpoint_every_steps is " + std::to_string(*config_.checkpoint_every_steps) +
           ", but the run has saved no checkpoint: " + reason_for_none());
    }
  } catch (const std::exception& error) {
    log::debug(std::string("can't tell whether checkpoints were saved: ") + error.what());
  }
}

}  // namespace hookline
