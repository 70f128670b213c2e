#include "parallel/resume/folder_claim.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "config/resolve.h"
#include "parallel/world/text_exchange.h"

namespace hookline {
namespace {

const char* const kFor = "claiming the checkpoint folder";

}  // namespace

FolderClaim::FolderClaim(std::shared_ptr<World> world, const TrainingConfig& config, const Attempt& attempt)
    : world_(std::move(world)), config_(config), launch_(attempt.launch) {
  const std::string problem = problem_of_any(*world_, kFor, [this] {
    if (world_->rank() == 0) lock_.emplace(config_.checkpoint_dir, "checkpoint_dir");
  });
  if (!problem.empty() && attempt.is_restart) throw Error(problem);
  if (!problem.empty()) throw ConfigError(problem);
  had_it_ = attempt.is_restart;
  if (!attempt.is_restart || launch_.empty()) return;
  const bool is_ours = lock_ && lock_->claimed_by() == launch_;
  had_it_ = !text_of_rank_zero(*world_, world_->group(), is_ours ? "yes" : "", kFor).empty();
}

void FolderClaim::take(std::optional<std::int64_t> resumed) {
  const std::string problem = problem_of_any(*world_, kFor, [&] {
    if (world_->rank() != 0) return;
    if (config_.resumes_by_name()) expect_none_beyond(config_.checkpoint_dir, resumed.value());
    if (config_.resume == "no") expect_no_checkpoints(config_.checkpoint_dir);
    lock_->claim_for(launch_);
  });
  if (!problem.empty()) throw ConfigError(problem);
}

}  // namespace hookline
