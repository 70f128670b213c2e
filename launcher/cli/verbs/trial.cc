// hookline trial: one trial of a sweep, as an element of an array job runs it.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder_access.h"
#include "base/log.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"
#include "launcher/sweep/table.h"
#include "launcher/sweep/trial_files.h"
#include "launcher/sweep/trial_process.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookAtRunEvery{200};
// Slurm signals the processes of a job one by one: the program may end from its signal before this process
// gets one.
constexpr std::chrono::milliseconds kSignalPatience{2000};

int exit_code_of(const TrialResult& result) {
  return result.status == TrialStatus::done ? kSuccess : kFailure;
}

/// The first signal that asks to end, if one comes within `time`.
std::optional<int> wait_for_signal(Signals& signals, std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + time;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    if (const auto signal = signals.wait(left)) return signal;
  }
}

int run_trial(TrialFolder own, const TrialPlan& plan, Signals& signals) {
  const fs::path folder = own.path();
  const std::string& id = plan.spec.planned.id;
  own.clear(/*keeps_plan=*/true);
  const TrialPlace place{fs::read_symlink("/proc/self/exe"), {}, std::nullopt};
  std::error_code error;
  fs::current_path(plan.folder, error);
  if (error)
    throw Error("the folder '" + plan.folder.string() +
                "', in which the trial is to run, can't be entered: " + error.message());
  TrialRun run(std::move(own), plan.spec, place, signals);
  signals.around_suspension({[&run] {
                               run.suspend();
                               run.wait_until_suspended(TrialRun::Clock::now() + kSuspendPatience);
                             },
                             [&run](TrialRun::Clock::duration suspended) { run.resume(suspended); }});
  std::optional<int> stopped_by;
  while (!run.look()) {
    const auto signal = signals.wait(kLookAtRunEvery, {run.end_descriptor()});
    if (!signal) continue;
    if (!stopped_by)
      run.interrupt(*signal);
    else if (*signal == SIGINT || *signal == SIGQUIT)  // schedulers send the others twice
      run.kill_now();
    if (!stopped_by) stopped_by = signal;
  }
  if (!stopped_by && run.was_signalled()) stopped_by = wait_for_signal(signals, kSignalPatience);
  const auto result = stopped_by ? run.result_if_done() : run.result();
  for (const std::string& warning : run.warnings()) log::warning(warning);
  if (!result) {
    log::info("stopped before the trial was done: it has no result");
    return 128 + *stopped_by;
  }
  write_result(folder, id, *result);
  Trial trial;
  trial.planned = plan.spec.planned;
  trial.result = *result;
  log::info(line_of(trial, 1, 1, plan.spec.by.metric, {}));
  return exit_code_of(*result);
}

}  // namespace

int trial(const Arguments& arguments) {
  VerbParser parser("hookline trial DIR",
                    "Run one trial of a sweep, with the config and the program that it was planned with, and "
                    "write its result into DIR. This is what the elements of a sweep's array job do.",
                    "hookline trial hookline-sweeps/hooks/trials/0123456789ab");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("trial's folder", 1, 1);
  expect_access(parser.plain()[0]);
  std::error_code none;  // ignored: a folder that can't be looked at has no plan
  const fs::path folder = fs::absolute(parser.plain()[0], none);
  if (!fs::exists(folder / kPlanFile, none)) {
    log::error("'" + (folder.empty() ? parser.plain()[0] : folder.string()) +
               "' is not a trial that a job is to run: it has no " + kPlanFile +
               ", which hookline sweep FILE --scheduler slurm writes");
    return kBadInput;
  }
  std::optional<TrialFolder> own;
  TrialPlan plan;
  std::optional<TrialResult> former;
  try {
    own.emplace(folder);
    plan = read_plan(folder);
    former = read_result(folder, plan.spec.planned.id);
  } catch (const Error& error) {
    log::error(error.what());
    return kBadInput;
  }
  if (former) {
    log::info(std::string("the trial ") + (former->status == TrialStatus::done ? "is done" : "has failed") +
              " already: its result is " + (folder / kResultFile).string());
    return exit_code_of(*former);
  }
  try {
    Signals signals;
    return run_trial(std::move(*own), plan, signals);
  } catch (const Error& error) {
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
