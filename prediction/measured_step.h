// What a step was measured to take without a hook, and what each hook would have to do in it: all that a prediction is made from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/catalog/hook_cost.h"
#include "prediction/step_plan.h"

namespace hookline {

struct MeasuredStep {
  struct Setting {
    std::string name;  // "power_sgd(rank=2) in fp16"
    HookCost cost;
    std::vector<double> ready = {};  // as BucketPlan's, of buckets of its own; empty: those of the plan
    bool is_between_hosts = false;   // its sends are between hosts alone
  };

  StepPlan plan;                    // without costs; its buckets are those of the step without a hook
  std::vector<BucketCost> no_hook;  // what is sent without one
  double seconds = 0;               // measured, without a hook
  Machine machine;
  std::optional<Machine> between_hosts;  // that a setting between hosts communicates with
  std::vector<Setting> settings;
};

/// Seconds of a step with each setting, in their order. Where the step that was measured took longer than a simulation of it, the link is
/// taken to be slower for each byte than it was measured to be; where it took less, what communication adds is shortened by as much.
std::vector<double> predicted_seconds(const MeasuredStep& step);

/// What a step would take if nothing were sent.
double seconds_alone(const MeasuredStep& step);

/// The same run on another network, `machine`, of which no step was measured: as simulated, in seconds. Settings between hosts are taken
/// to communicate with all of it.
struct Elsewhere {
  double no_hook = 0;
  std::vector<double> settings;
};
Elsewhere predicted_elsewhere(const MeasuredStep& step, const Machine& machine);

/// As JSON, and back; the latter throws Error for what is not one.
std::string to_json(const MeasuredStep& step);
MeasuredStep measured_step_from_json(std::string_view text);

}  // namespace hookline
