#include "parallel/checkpointer.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_folder.h"
#include "hooks/error.h"
#include "hooks/log.h"
#include "parallel/preemption.h"
#include "parallel/random_state.h"

namespace hookline {
namespace {

const char* const kProgressPart = "progress";
const char* const kHookNote = "hook";

SavedPart save_progress(const detail::TrainingProgress& progress) {
  SavedPart saved;
  saved.notes = {{"steps", progress.steps},
                 {"micro_steps", progress.micro_steps},
                 {"sync_gradients", progress.sync_gradients}};
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

}  // namespace

Checkpointer::Checkpointer(std::shared_ptr<World> world, const TrainingConfig& config, bool restarted,
                           std::shared_ptr<detail::TrainingProgress> progress)
    : world_(std::move(world)), config_(config), progress_(std::move(progress)) {
  if (config_.resume == "auto" || (restarted && config_.checkpoint_every_steps)) {
    auto newest = OpenCheckpoint::newest(*world_, config_.checkpoint_dir);
    if (newest) go_on_from(std::move(newest));
  } else if (config_.resume != "no") {
    go_on_from(OpenCheckpoint::open(*world_, config_.resume));
  }
  if (from_ == nullptr && config_.checkpoint_every_steps && config_.resume != "auto" && !restarted)
    expect_no_checkpoints(config_.checkpoint_dir);
  if (config_.checkpoint_every_steps) watch_for_preemption();
  add({kProgressPart, [this] { return save_progress(*progress_); },
       [this](const SavedPart& saved, Resumption& resumption) {
         load_progress(*progress_, saved, resumption);
       }});
  last_saved_step_ = progress_->steps;
  add({kRandomPart, [this] { return save_random(world_->device()); },
       [this](const SavedPart&, Resumption&) { random_is_due_ = true; }});
}

CheckpointSaver& Checkpointer::saver() {
  if (!saver_) saver_ = std::make_unique<CheckpointSaver>(world_);
  return *saver_;
}

void Checkpointer::go_on_from(std::unique_ptr<OpenCheckpoint> checkpoint) {
  from_ = std::move(checkpoint);
  const Manifest& manifest = from_->manifest();
  resumption_ = {from_->folder().string(), manifest.world_size, world_->size(), {}};
  if (world_->rank() == 0)
    log::info("going on from step " + std::to_string(manifest.step) + ": checkpoint '" +
              resumption_.checkpoint + "' of " + manifest.saved_at);
}

std::string Checkpointer::next_name(const std::string& kind) const {
  const auto taken = std::count_if(parts_.begin(), parts_.end(), [&](const CheckpointPart& part) {
    return part.name == kind || part.name.starts_with(kind + "_");
  });
  return taken == 0 ? kind : kind + "_" + std::to_string(taken);
}

void Checkpointer::add(CheckpointPart part) {
  parts_.push_back(std::move(part));
  if (from_) restore(parts_.back());
}

void Checkpointer::add_object(const std::string& name, detail::TensorAccess access) {
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
  add({part,
       [access] {
         SavedPart saved;
         if (const at::Tensor tensor = access.save(); tensor.defined()) saved.shared["value"] = tensor;
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
  if (std::exchange(random_was_told_, true)) resumption_.resets.clear();
  resumption_.tell_resets(world_->rank() == 0);
}

void Checkpointer::prepared() {
  if (random_is_due_) restore_random();
}

void Checkpointer::before_batch(const void* loader) {
  if (random_is_due_) {
    restore_random();
    random_is_due_ = false;
    from_.reset();
  }
  if (in_hand_.contains(loader)) save_due();
}

bool Checkpointer::is_due() const {
  if (!config_.checkpoint_every_steps) return false;
  const std::int64_t every = *config_.checkpoint_every_steps;
  if (stop_at_ && progress_->steps >= *stop_at_) return true;
  return progress_->steps / every > last_saved_step_ / every;
}

void Checkpointer::step_done(bool last, std::set<const void*> loaders) {
  look_for_preemption();
  if (!is_due()) return;
  in_hand_ = std::move(loaders);
  if (in_hand_.empty() && last) save_due();
}

void Checkpointer::save_due() {
  in_hand_.clear();
  last_saved_step_ = progress_->steps;
  const std::filesystem::path folder = config_.checkpoint_dir;
  const auto prune = [folder, keep = config_.checkpoint_keep_last] {
    try {
      prune_checkpoints(folder, keep);
    } catch (const Error& error) {
      log::warning(std::string("older checkpoints stay: ") + error.what());
    }
  };
  const auto name = folder / checkpoint_name(progress_->steps);
  const bool is_last = stop_at_ && progress_->steps >= *stop_at_;
  if (config_.checkpoint_async && !is_last) return saver().save_in_background(name, content(), prune);
  const bool saved = saver().save(name, content(), prune);
  if (!is_last) return;
  if (saved) end_for_later();
  stop_at_.reset();  // it goes on for as long as it may
  last_look_ = std::chrono::steady_clock::time_point::max();
}

void Checkpointer::look_for_preemption() {
  using std::chrono::duration;
  constexpr std::chrono::milliseconds kLookEvery{500};  // for what another rank was told
  constexpr duration<double> kTimeToHear{2};
  if (!config_.checkpoint_every_steps || stop_at_) return;
  const auto now = std::chrono::steady_clock::now();
  const duration<double> step = now - std::exchange(last_step_, now);
  const bool told = preemption_announced();
  if (now < last_look_ || (!told && now - last_look_ < kLookEvery)) return;
  last_look_ = now;
  // No rank is further than one step ahead: the first that was told names a step that all will have heard of before.
  const std::string key = "checkpoint/stop_at";
  std::vector<std::uint8_t> agreed;
  if (told) {
    const auto ahead =
        static_cast<std::int64_t>(std::min(1000.0, kTimeToHear / std::max(step, duration<double>(1e-6))));
    const std::string proposal = std::to_string(progress_->steps + 2 + ahead);
    agreed = world_->store().compareSet(key, std::vector<std::uint8_t>(),
                                        std::vector<std::uint8_t>(proposal.begin(), proposal.end()));
  } else if (world_->store().check({key})) {
    agreed = world_->store().get(key);
  }
  if (!agreed.empty()) stop_at_ = std::stoll(std::string(agreed.begin(), agreed.end()));
}

void Checkpointer::end_for_later() {
  if (world_->rank() == 0)
    log::info("ending at step " + std::to_string(progress_->steps) +
              ", as SIGUSR1 asks: with resume = \"auto\" the next launch goes on from here");
  world_->barrier("the end after SIGUSR1");
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
  return saver().save(folder, content(), {});
}

void Checkpointer::load_state(const std::filesystem::path& folder) {
  if (saver_) saver_->wait();
  go_on_from(OpenCheckpoint::open(*world_, folder));
  for (const CheckpointPart& part : parts_) restore(part);
  restore_random();
  random_is_due_ = false;
  last_saved_step_ = progress_->steps;
  in_hand_.clear();
  from_.reset();
}

void Checkpointer::finish() {
  if (!in_hand_.empty()) save_due();
  if (saver_) saver_->wait();
}

}  // namespace hookline
