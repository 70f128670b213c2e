// Which run owns the folder that checkpoints are saved in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/folder_lock.h"
#include "config/schema/run_config.h"
#include "parallel/world/world.h"

namespace hookline {

/// One start of all ranks.
struct Attempt {
  bool is_restart = false;  // after a failure
  std::string launch;       // the same for all attempts of one launch, and only for them; empty: not known
};

/// Keeps other runs out of [training] checkpoint_dir as long as it lives, by a lock that rank 0 holds. Its
/// calls are collective.
class FolderClaim {
 public:
  /// Throws ConfigError if the folder is in use; on a restart after a failure it throws Error instead, so
  /// that the launcher tries again: the ranks of the attempt before may take a while to go, on a node that
  /// was lost.
  FolderClaim(std::shared_ptr<World> world, const TrainingConfig& config, const Attempt& attempt);

  /// Did an earlier attempt of this launch have it, so that its checkpoints are those of this run?
  bool had_it() const { return had_it_; }

  /// Records that the folder belongs to this launch, which resumes from the checkpoint of step `resumed`, if
  /// from any. Throws ConfigError if checkpoints of another run are in it.
  void take(std::optional<std::int64_t> resumed);

 private:
  std::shared_ptr<World> world_;
  TrainingConfig config_;
  std::string launch_;
  std::optional<FolderLock> lock_;  // rank 0's
  bool had_it_ = false;
};

}  // namespace hookline
