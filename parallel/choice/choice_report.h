// The basis and the outcome of a hook choice, for a run's summary and for `hookline advise`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hooks/catalog/hook_cost.h"
#include "prediction/measured_step.h"

namespace hookline {

/// Seconds are those of a step; 0: not known.
struct ChoiceReport {
  struct Setting {
    std::string name;
    std::string hook;               // as comm_hook names it; "no" for none
    std::int64_t bucket_bytes = 0;  // at which a bucket is full; 0: as the config says
    double predicted = 0;           // before it was measured; corrected by settings measured before
    double margin = 0;              // of the hook's own work, as a fraction of it
    HookCost::Known how = HookCost::Known::measured;
    double measured = 0;       // while it was in use: the median of its trials
    bool is_given_up = false;  // its error was larger than permitted
  };
  std::vector<Setting> settings;  // the first: no hook
  std::string chosen;             // the name of the setting chosen last; empty before the first choice
  bool is_settled = false;        // `chosen` is in use, and its steps are measured
  std::int64_t step = 0;          // steps of this process before it came into use
  int exchanges = 0;
  double measuring_seconds = 0;          // on top of the steps themselves
  std::optional<MeasuredStep> measured;  // what the last choice was made from
};

/// An object of these fields except `is_settled` and `measured`; what is not known is null or left out.
nlohmann::ordered_json to_json(const ChoiceReport& report);
/// Compares the setting that was chosen last with training without a hook: {"chosen", "predicted_seconds",
/// "measured_seconds", "no_hook_seconds"}.
nlohmann::ordered_json brief_json(const ChoiceReport& report);

}  // namespace hookline
