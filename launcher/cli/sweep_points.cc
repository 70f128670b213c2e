#include "launcher/cli/sweep_points.h"

#include <algorithm>

#include "config/print.h"
#include "config/starting_file.h"
#include "config/visible_gpus.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/node_setup.h"
#include "launcher/launch/unread_config.h"

namespace hookline {
namespace fs = std::filesystem;

SweepPoints::SweepPoints(const fs::path& file, const SweepFile& sweep, const CatalogOf& hooks, bool run_here,
                         std::optional<std::string> omp_num_threads)
    : hooks_(hooks), run_here_(run_here), omp_num_threads_(std::move(omp_num_threads)) {
  if (!sweep.settings.config.empty()) base_.file = file.parent_path() / sweep.settings.config;
  hooks.apply_to(base_);
  const Resolution plain = resolve({}, hooks.catalog);
  for (const ShownValue& value : shown_values(plain.config))
    defaults_.emplace(value.key(), to_text(value.value));
}

Resolution SweepPoints::resolve_cell(const Assignments& values) const {
  Sources sources = base_;
  for (const auto& [key, value] : values)
    if (!key.starts_with(kArgumentPrefix)) sources.overrides.push_back({key, value, key + "=" + value});
  return resolve(sources, hooks_.catalog);
}

/// A point's identity is its values that are not defaults, except for [logging].
ResolvedPoint SweepPoints::point(const Assignments& values) {
  const Resolution resolution = resolve_cell(values);
  ResolvedPoint point;
  point.problems = resolution.report();
  if (!resolution.ok()) return point;
  point.problems.clear();
  RunConfig config = resolution.config;
  if (has_many_nodes(config.launch)) point.problems = "a trial runs on one node: launch.nnodes must be 1\n";
  const bool needs_gpu = config.launch.device == "cuda" || config.launch.backend == "nccl";
  if (run_here_ && needs_gpu && visible_gpus() == 0)
    point.problems = "it needs a GPU, and " + why_no_gpu() + "\n";
  if (!point.problems.empty()) return point;
  most_ranks_ = std::max<std::int64_t>(most_ranks_, ranks_of(config.launch));
  const NodeResources needed = resources_of(config, omp_num_threads_);
  needed_.cpus = std::max(needed_.cpus, needed.cpus);
  needed_.gpus = std::max(needed_.gpus, needed.gpus);
  for (const Diagnostic& each : resolution.diagnostics)
    if (each.kind == ProblemKind::never_starts) point.never_starts = each.message + ": " + each.note;
  if (const auto start = config.ddp.comm_state_option.find("start_powerSGD_iter");
      start != config.ddp.comm_state_option.end())
    if (const auto* step = std::get_if<std::int64_t>(&start->second)) point.compresses_from = *step;
  for (const RankSetting& each : rank_settings(config)) keys_of_ranks_.insert(each.key);
  for (const ShownValue& value : shown_values(config))
    if (value.table != "logging" && !defaults_.contains({value.key(), to_text(value.value)}))
      point.identity += value.key() + " = " + to_text(value.value) + "\n";
  for (std::string& plugin : config.ddp.plugins) plugin = fs::absolute(plugin).string();
  const TrainingConfig& training = config.training;
  if (training.checkpoint_every_steps && fs::path(training.checkpoint_dir).is_relative())
    point.own_folders["training.checkpoint_dir"] = "checkpoints";
  if (!training.record_gradients.empty() && fs::path(training.record_gradients).is_relative())
    point.own_folders["training.record_gradients"] = "gradients";
  point.config = chosen_file(config);
  point.grace_seconds = config.launch.grace_period_seconds;
  return point;
}

}  // namespace hookline
