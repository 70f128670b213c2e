// Runs the trials of a sweep: each is a launch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/signals.h"
#include "launcher/sweep/state.h"
#include "launcher/sweep/trial_process.h"

namespace hookline {

/// What the machine has for trials.
struct SweepMachine {
  std::vector<int> cores;  // that this process may run on
  int gpus = 0;
};

struct SweepRun {
  std::filesystem::path folder;    // of the sweep; a trial's is trials/ID in it
  std::filesystem::path hookline;  // the launcher
  SweepSettings settings;
  SweepMachine machine;
  std::int64_t most_ranks = 1;  // of one trial
  bool uses_gpus = false;
  Assignments same;  // values that all trials have, which labels of trials leave out
  /// Config keys that trials set and that have an effect only if the trial's program uses hookline's library.
  std::set<std::string> keys_of_ranks = {};
  bool is_terminal = false;
  std::string again = {};  // this command's flags that reran trials, such as "--rerun", for people

  /// "the same 'hookline sweep' command, without --rerun,": what continues from here, for people.
  std::string same_command() const {
    return "the same 'hookline sweep' command" + (again.empty() ? "" : ", without " + again + ",");
  }
};

/// How many trials may run at once: what is set, or, for "auto", as many as there are cores or GPUs for, at
/// least one.
std::int64_t places_of(const SweepRun& run);

/// The exclusive share of the machine for place `index`, from 0: an equal share of the cores, and of the GPUs
/// if trials use them. Everything, if there is one place. If there are fewer cores than places, all places
/// share all cores; if there are fewer GPUs, they share all GPUs.
TrialPlace place_of(const SweepRun& run, std::size_t index);

/// How running a sweep has ended.
struct SweepEnd {
  bool has_failed = false;    // a trial of the plan
  std::optional<int> signal;  // that stopped it
};

/// Runs the waiting trials of `plan` in order until none waits, the budget is used up, a trial fails and the
/// settings say to stop then, or a signal asks to stop; the state must contain the plan. Reports progress.
/// Throws Error, after stopping all trials, if the state or a trial's folder can't be written.
SweepEnd run_sweep(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals);

}  // namespace hookline
