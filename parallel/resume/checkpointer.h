// Decides when a run saves checkpoints, and resumes from them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/run_config.h"
#include "parallel/data/training_place.h"
#include "parallel/model/prepared_optimizer.h"
#include "parallel/resume/checkpoint_saver.h"
#include "parallel/resume/checkpointed.h"
#include "parallel/resume/exit_reminder.h"
#include "parallel/resume/folder_claim.h"
#include "parallel/resume/open_checkpoint.h"
#include "parallel/resume/preemption.h"
#include "parallel/resume/save_point.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// The parts of a run, as they are prepared; each is restored when it is added, if the run resumes from a
/// checkpoint. Not synchronised; what saves and loads is called by every rank alike.
class Checkpointer {
 public:
  /// Finds the checkpoint to resume from by [training] resume; after a failure, a run that keeps checkpoints
  /// resumes from the newest one that it has saved, whatever `resume` says. A collective call if it keeps or
  /// resumes from checkpoints. Throws Error if a named checkpoint does not exist, and ConfigError if the
  /// folder to save to is in use (on a restart after a failure it throws Error instead, so that the launcher
  /// tries again), or holds checkpoints of another run.
  Checkpointer(std::shared_ptr<World> world, const TrainingConfig& config, const Attempt& attempt,
               std::shared_ptr<detail::TrainingProgress> progress, std::shared_ptr<TrainingPlace> place);

  /// A second part of one name becomes "NAME_1".
  void add(CheckpointPart part);
  void add(std::shared_ptr<detail::EpochPlan> loader);

  /// `counts`: the program may count its epochs in it. Throws Error for a name that can't be one, or is
  /// taken.
  void add_object(const std::string& name, detail::TensorAccess access, bool counts);

  /// Call it after prepare(): restores the RNG state again, since building the objects consumed random
  /// numbers.
  void prepared();
  /// `loader` is about to load a batch.
  void before_batch(const detail::EpochPlan* loader);
  /// See detail::LoaderWatch.
  bool skips_done_passes(std::int64_t passes, std::int64_t trained);
  void pass_taken_back(const detail::EpochPlan* loader);
  /// An optimizer has made a step.
  void step_done();
  /// accelerator.backward() has run.
  void backward_done();
  /// The program has asked how many steps are done or, with max_steps, whether to stop.
  void asked_for_steps() { knows_steps_ = knows_steps_ || !has_stepped_; }

  bool save_state(const std::filesystem::path& folder);
  void load_state(const std::filesystem::path& folder);
  /// Saves the end of a run that keeps checkpoints, and waits for it.
  void finish();
  /// Call it when the process exits, std::exit included: warns on rank 0, with the reason, if a due
  /// checkpoint was not saved or if the run saved none at all.
  void remind() noexcept;

 private:
  std::string next_name(const std::string& kind) const;
  void add_as_named(CheckpointPart part);
  CheckpointSaver& saver();
  CheckpointContent content() const;
  bool is_due() const;
  void save_due();
  void save_without_loader(const detail::EpochPlan* waited_for);
  void warn_of_inexact_saves();
  void warn_of_place(const detail::EpochPlan* loader);
  [[noreturn]] void end_for_later();
  void resume_from(std::unique_ptr<OpenCheckpoint> checkpoint);
  void restore(const CheckpointPart& part);
  void restore_random();
  void restore_before_first_batch(const detail::EpochPlan* loader);
  void restore_again(bool bodies_ran);
  bool has_skipped_passes() const;
  void has_trained();
  void warn_of_uncounted_steps();
  void warn(const std::string& message) const;
  void warn_once(bool& told, const std::string& message) const;
  void warn_of_left_loops();
  void warn_of_save_in_round(bool before_batch);
  void tell_of_save_in_round(std::int64_t step, bool before_batch);
  void warn_of_random_batches();
  std::string reason_for_none() const;

  std::shared_ptr<World> world_;
  TrainingConfig config_;
  std::shared_ptr<detail::TrainingProgress> progress_;
  std::vector<CheckpointPart> parts_;
  std::optional<FolderClaim> claim_;  // if the run keeps checkpoints
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<OpenCheckpoint> from_;  // until the program trains
  Resumption resumption_;
  std::shared_ptr<TrainingPlace> place_;
  SavePoint save_point_;
  std::map<std::string, std::shared_ptr<detail::EpochPlan>> loaders_;  // by the name of their part
  std::vector<std::pair<std::string, detail::TensorAccess>> counts_;   // objects that may count epochs
  bool first_batch_is_due_ = false;  // before which random numbers are restored
  bool random_was_told_ = false;     // what of it is not restored
  bool by_hand_ = false;             // load_state restores
  bool has_ended_ = false;           // the program has called end_training, and not because of max_steps
  std::int64_t first_step_ = 0;      // of this process
  std::int64_t last_saved_step_ = 0;
  std::int64_t backwards_ = 0;  // before the first step
  std::int64_t tries_ = 0;      // to save
  std::shared_ptr<std::atomic<std::int64_t>> saves_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::optional<Preemption> preemption_;  // if the run keeps checkpoints
  bool is_to_stop_ = false;               // all ranks save at this step and end
  const detail::EpochPlan* waits_for_ =
      nullptr;  // a due checkpoint is saved just before this loader loads its next batch
  const detail::EpochPlan* saved_before_batch_of_ = nullptr;  // and nothing was trained since
  bool told_of_mid_batch_ = false, told_of_other_epoch_ = false, told_of_left_loops_ = false;
  bool told_of_saved_behind_ = false, told_of_saved_in_round_ = false;
  bool told_of_late_training_ = false, told_of_order_ = false, told_of_skips_ = false;
  bool told_of_random_batches_ = false;
  const detail::EpochPlan* saved_behind_ = nullptr;  // whose loop was over, in the rest of a body
  std::int64_t saved_behind_step_ = 0, saved_in_round_step_ = 0;
  bool saved_in_round_before_batch_ = false;
  ExitReminder at_exit_{[this] { remind(); }};
  bool ends_when_it_trains_ = false;  // all is saved, and the rest of an epoch's body may still run
  bool has_stepped_ = false, knows_steps_ = false;  // in this process; before its first step
  bool told_of_uncounted_steps_ = false;
};

}  // namespace hookline
