// When a run saves its state, and what it goes on from.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/folder_lock.h"
#include "config/run_config.h"
#include "parallel/checkpoint_saver.h"
#include "parallel/checkpointed.h"
#include "parallel/open_checkpoint.h"
#include "parallel/prepared_optimizer.h"
#include "parallel/saved_part.h"

namespace hookline {

/// The parts of a run, as they are prepared; each is restored when it is added, if the run goes on from a checkpoint.
/// Not synchronised; what saves and loads is called by every rank alike.
class Checkpointer {
 public:
  /// Looks for the checkpoint to go on from, as [training] resume says; `restarted`: after a failure of the run, which goes
  /// on from its newest whatever `resume` says. A collective call then. Throws Error: no checkpoint where one is named,
  /// or checkpoints of another run in the folder that this one would save to.
  Checkpointer(std::shared_ptr<World> world, const TrainingConfig& config, bool restarted,
               std::shared_ptr<detail::TrainingProgress> progress);

  void add(CheckpointPart part);
  /// A second part of one `kind` is "KIND_1".
  std::string next_name(const std::string& kind) const;

  /// Throws Error for a name that can't be one, or is taken.
  void add_object(const std::string& name, detail::TensorAccess access);

  /// After prepare(): what was restored can't be told from what random numbers it took to build it.
  void prepared();
  /// A loader, known by `loader`, is about to load a batch.
  void before_batch(const void* loader);
  /// An optimizer has made a step. `last`: no other will in this iteration; `loaders`: those whose batch is in hand.
  void step_done(bool last, std::set<const void*> loaders);

  bool save_state(const std::filesystem::path& folder);
  void load_state(const std::filesystem::path& folder);
  /// Saves what is due and waits for it.
  void finish();

 private:
  CheckpointSaver& saver();
  CheckpointContent content() const;
  bool is_due() const;
  void save_due();
  void look_for_preemption();
  [[noreturn]] void end_for_later();
  void go_on_from(std::unique_ptr<OpenCheckpoint> checkpoint);
  void restore(const CheckpointPart& part);
  void restore_random();

  std::shared_ptr<World> world_;
  TrainingConfig config_;
  std::shared_ptr<detail::TrainingProgress> progress_;
  std::vector<CheckpointPart> parts_;
  std::optional<FolderLock> lock_;  // rank 0's, on the folder that checkpoints are made in
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<OpenCheckpoint> from_;
  Resumption resumption_;
  bool random_is_due_ = false;    // to be restored at the first batch
  bool random_was_told_ = false;  // what of it is not restored
  std::int64_t last_saved_step_ = 0;
  std::int64_t next_look_ = 0, last_look_ = 0;  // steps at which ranks look for a preemption
  std::chrono::steady_clock::time_point last_look_at_ = std::chrono::steady_clock::now();
  bool is_to_stop_ = false;        // all ranks save at this step and end
  std::set<const void*> in_hand_;  // loaders whose batch the step that is due came from
};

}  // namespace hookline
