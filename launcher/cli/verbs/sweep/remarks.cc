#include "launcher/cli/verbs/sweep/remarks.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/lines.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "base/text/list_text.h"
#include "base/text/printable.h"
#include "config/sources/sources.h"
#include "launcher/launch/script_kind.h"
#include "launcher/launch/unread_config.h"
#include "launcher/rank/program.h"
#include "launcher/sweep/table.h"
#include "launcher/sweep/trial_files.h"
#include "launcher/sweep/trial_process.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string listed(const std::set<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text;
}

}  // namespace

/// Lists at most `most` combinations that can't run.
void list_invalid(const SweepPlan& plan, const Assignments& same, bool refuses, std::size_t most) {
  if (plan.invalid.empty()) return;
  log::warning(count_text(plan.invalid.size(), "combination") + " can't run" +
               (refuses                    ? " (invalid = \"refuse\")"
                : plan.invalid.size() == 1 ? ", and is left out"
                                           : ", and are left out"));
  for (std::size_t i = 0; i < plan.invalid.size() && i < most; ++i) {
    std::cerr << "  " << printable(label_of(plan.invalid[i].values, same)) << "\n";
    for (const std::string_view line : lines_of(plan.invalid[i].problems))
      std::cerr << "    " << printable(line) << "\n";
  }
  if (plan.invalid.size() > most)
    std::cerr << "  and " << plan.invalid.size() - most << " more, which --dry-run lists\n";
  std::cerr << std::flush;
}

/// Lists hooks that would never start to compress: their rows would look like uncompressed ones.
void list_never_starting(const SweepPlan& plan, const Assignments& same, std::size_t most) {
  const std::vector<InvalidPoint>& points = plan.never_starting;
  if (points.empty()) return;
  log::warning(count_text(points.size(), "combination") + (points.size() == 1 ? " has" : " have") +
               " a hook that would compress nothing before its trials end");
  for (std::size_t i = 0; i < points.size() && i < most; ++i)
    std::cerr << "  " << printable(label_of(points[i].values, same)) << "\n    "
              << printable_lines(points[i].problems) << "\n";
  if (points.size() > most) std::cerr << "  and " << points.size() - most << " more, which --dry-run lists\n";
  std::cerr << std::flush;
}

void warn_of_ignored_variables() {
  std::vector<std::string> ignored;
  for (const auto& [name, value] : hookline_environment())
    if (overrides_config(name + "=" + value)) ignored.push_back(name);
  if (ignored.empty()) return;
  log::warning("a sweep ignores " + list_text(ignored) +
               ": its trials depend on its file alone, where [fixed] holds what all of them share");
}

/// Before any trial runs: warns if the program is a script, which may ignore the keys that trials set.
void warn_of_script(const std::string& program, const std::set<std::string>& keys) {
  const std::string kind = keys.empty() ? "" : script_kind(find_program({program}, search_path()));
  if (kind.empty()) return;
  log::warning("'" + program + "' is " + kind +
               ": unless it uses hookline's library or starts a program that does, " + listed(keys) +
               (keys.size() == 1 ? " has" : " have") +
               " no effect. If rows differ in nothing else, their results differ only by chance");
}

/// After trials have run: warns if nothing acted on the keys that trials set.
void warn_of_unread_configs(const std::vector<Trial>& trials, const fs::path& folder,
                            const std::set<std::string>& keys) {
  if (keys.empty()) return;
  std::size_t done = 0;
  for (const Trial& trial : trials) {
    if (trial.result.status != TrialStatus::done) continue;
    if (was_config_read(run_of(folder_of_trial(folder, trial.planned.id)))) return;
    ++done;
  }
  if (done > 0)
    log::warning(
        "no rank of any trial has read its config, which hookline's library reads in Accelerator::from_env "
        "and, in Python, in hookline.apply: so " +
        listed(keys) + " had no effect. If rows differ in nothing else, their results differ only by chance");
}

void list_idle(const SweepPlan& plan, const std::vector<Trial>& trials, const Assignments& same) {
  std::map<std::string, std::int64_t> starts;  // by trial
  for (const PlannedTrial& each : plan.trials)
    if (each.point.compresses_from && each.point.never_starts.empty())
      starts.emplace(each.id, *each.point.compresses_from);
  std::map<Assignments, std::int64_t> idle;
  std::set<Assignments> active;
  for (const Trial& trial : trials) {
    const auto start = starts.find(trial.planned.id);
    if (start == starts.end() || trial.result.status != TrialStatus::done) continue;
    const Measures measures(trial.result);
    const auto sent = measures["bytes_per_step"], whole = measures["uncompressed_bytes_per_step"];
    if (!sent || !whole) continue;
    const Assignments values = without_seed(trial.planned.values);
    if (*sent < *whole) active.insert(values);
    idle.emplace(values, start->second);
  }
  std::erase_if(idle, [&](const auto& each) { return active.contains(each.first); });
  if (idle.empty()) return;
  log::warning(
      count_text(idle.size(), "combination") + (idle.size() == 1 ? " has" : " have") +
      " a hook that has compressed nothing, since the trials ended before the hook began: only chance sets "
      "the results apart from those without a hook");
  for (const auto& [values, start] : idle)
    std::cerr << "  " << printable(label_of(values, same)) << "\n    start_powerSGD_iter is " << start
              << ": make it smaller, or the trials longer\n";
  std::cerr << std::flush;
}

void print_plan(const SweepPlan& plan, const Assignments& same, bool json) {
  for (const PlannedTrial& trial : plan.trials) {
    if (json) {
      std::cout << Json{{"id", trial.id},
                        {"values", trial.values},
                        {"program", trial.program},
                        {"repeat", trial.repeat},
                        {"baseline", trial.is_baseline}}
                       .dump()
                << "\n";
      continue;
    }
    const std::string label = printable(label_of(trial.values, same));
    std::cout << trial.id << "  " << (label.empty() ? "(as the config has it)" : label)
              << (trial.is_baseline ? "  (baseline)" : "") << "\n";
  }
  if (!json) {
    std::cout << count_text(plan.trials.size(), "trial") << "\n";
    if (plan.repeats_baseline)
      std::cout << "The baseline runs again as the third trial: the first trial alone, on a cold machine, "
                   "would make "
                   "the others look faster than they are.\n";
  }
  std::cout << std::flush;
}

/// Logs which trials failed, where their output is, and how to run them again.
void tell_of_failures(const std::vector<Trial>& trials, const SweepRun& run) {
  std::vector<std::string> ids;
  for (const Trial& trial : trials)
    if (trial.result.status == TrialStatus::failed) ids.push_back(trial.planned.id);
  if (ids.empty()) return;
  std::string listed;
  for (std::size_t i = 0; i < ids.size() && i < kMostShown; ++i) listed += (i ? ", " : "") + ids[i];
  if (ids.size() > kMostShown) listed += ", …";
  log::info(count_text(ids.size(), "trial") + " failed: " + listed + "; what each said is in " +
            (run.folder / "trials" / "ID" / "output.log").string() + ", and --retry-failed runs " +
            (ids.size() == 1 ? "it" : "them") + " again");
}

/// Warns if trials that run at once must share cores or GPUs.
void check_places(const SweepRun& run, std::size_t trials) {
  const std::int64_t places = std::min(places_of(run), static_cast<std::int64_t>(trials));
  const auto has = static_cast<std::int64_t>(run.uses_gpus ? static_cast<std::size_t>(run.machine.gpus)
                                                           : run.machine.cores.size());
  if (places > 1 && places * run.most_ranks > has)
    log::warning("with max_parallel = " + std::to_string(places_of(run)) + ", " +
                 count_text(places, "trial") + " of up to " + count_text(run.most_ranks, "rank") +
                 " share the " + count_text(has, run.uses_gpus ? "GPU" : "core") +
                 " here, and slow each other down");
}

}  // namespace hookline
