// What a trial has come to, by what it has logged: pure functions.
#pragma once

#include <string>

#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/state.h"
#include "launcher/sweep/stopping.h"

namespace hookline {

/// What trials are compared by, as the sweep file has it.
struct Yardstick {
  std::string metric;  // empty: trials are only run
  std::string goal = "min";
  std::string metric_value = "last";
  std::string early_stopping = {};  // "median from step 10"; empty: no trial is ended early

  bool smaller_is_better() const { return goal == "min"; }
  /// Identifies how finished trials are judged, for TrialResult::judged_by.
  std::string name() const;
  /// The same for trials that are stopped early.
  std::string name_of_early_end() const;
};

/// True if the trial was stopped early by a rule, metric or goal that is no longer in force.
bool was_ended_by_another_rule(const TrialResult& result, const Yardstick& by);

Yardstick yardstick_of(const SweepSettings& settings);

/// Judges a trial whose launch has ended well.
void judge(const MetricsFile& metrics, const Yardstick& by, TrialResult& result);

/// As much of what a program or its launch says as a table has room for.
std::string shortened_reason(const std::string& reason);

/// Why a trial has failed if the last value of its metric is not a finite number.
std::string not_a_number(const Yardstick& by, const History& points);

}  // namespace hookline
