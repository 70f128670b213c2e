// The input of a prediction: a measured step without a hook, and the work that each hook would add.
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
    std::vector<double> ready = {};  // by bucket, if its buckets differ from the plan's
    bool is_between_hosts = false;   // its sends are between hosts alone
  };

  StepPlan plan;                    // without costs; its buckets are those of the step without a hook
  std::vector<BucketCost> no_hook;  // what is sent without one
  double seconds = 0;               // measured, without a hook
  Machine machine;
  std::optional<Machine> between_hosts;  // that a setting between hosts communicates with
  std::vector<Setting> settings;
};

/// Predicted seconds of a step with each setting, in their order. Simulations are calibrated with the
/// measured step: if it took longer than simulated, the link is assumed slower per byte than measured; if it
/// took less, the simulated time that communication adds is scaled down.
std::vector<double> predicted_seconds(const MeasuredStep& step);

/// What a step would take if nothing were sent.
double seconds_alone(const MeasuredStep& step);

/// The seconds that communication adds to a step without a hook.
struct Added {
  double measured = 0, simulated = 0;
};
Added added_by_communication(const MeasuredStep& step);

/// Simulated seconds of a step of the same run on another network, `machine`, without calibration. Settings
/// between hosts use `machine` as well.
struct Elsewhere {
  double no_hook = 0;
  std::vector<double> settings;
};
Elsewhere predicted_elsewhere(const MeasuredStep& step, const Machine& machine);

/// As JSON, and back; the latter throws Error for what is not one.
std::string to_json(const MeasuredStep& step);
MeasuredStep measured_step_from_json(std::string_view text);

}  // namespace hookline
