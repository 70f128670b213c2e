// Measures the link and the hooks' own work, and predicts a step with each setting.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "config/schema/link_text.h"
#include "hooks/catalog/hook_cost.h"
#include "hooks/comm.h"
#include "hooks/hook_state.h"
#include "parallel/choice/link_cost.h"
#include "parallel/choice/setting_list.h"
#include "parallel/groups/host_layout.h"
#include "parallel/world/world.h"
#include "prediction/measured_step.h"

namespace hookline {

/// A step without a hook, as it was observed.
struct ObservedStep {
  double seconds = 0;
  StepPlan plan;             // of `buckets`
  BucketParameters buckets;  // the finest that there are
};

/// Predicts by measurements on the run's own ranks, between two steps. Each call is a collective call, and
/// every rank gets the same. Not synchronised.
class StepPredictor {
 public:
  struct Prediction {
    std::size_t setting;
    double seconds;  // of a step
    double margin;   // of the hook's own work, as HookCost's
    HookCost::Known how;
  };

  /// `named_link`: the link between hosts, by the config; none: it is measured.
  StepPredictor(std::shared_ptr<World> world, std::optional<NamedLink> named_link)
      : world_(std::move(world)), named_link_(named_link) {}

  /// Predicts each hook with the config's buckets, layouts[0], then no hook and the fastest hooks with the
  /// other layouts. Returns nothing if communication takes too little of a step for a hook to pay. Timing
  /// hooks takes a few steps' time at most; rank 0 logs which hooks were left out. With `all`, predicts every
  /// setting, however long that takes.
  std::vector<Prediction> predict(const ObservedStep& observed, const SettingList& settings,
                                  const std::vector<BucketParameters>& layouts, bool all);

  /// What the last predictions were made from; none before.
  const std::optional<MeasuredStep>& measured() const { return measured_; }

  /// True if the config names the link, until a measurement shows that the run has another one.
  bool has_named_link() const { return named_link_.has_value(); }

  /// Seconds of an all-reduce of `bytes` among all ranks, now.
  double time_all_reduce(std::int64_t bytes);

 private:
  struct Round;
  c10d::ProcessGroup& group(SumScope scope);
  LinkCost measured_link(SumScope scope);
  void measure(const ObservedStep& observed, const SettingList& settings, const BucketParameters& buckets);
  bool take_named_link(const SettingList& settings);
  void measure_scopes();
  void add_costs(Round& round, std::size_t layout, const std::vector<std::size_t>& hooks);
  void log_left_out(const std::string& text) const;

  std::shared_ptr<World> world_;
  std::optional<NamedLink> named_link_;
  std::optional<MeasuredStep> measured_;
  std::map<SumScope, ProcessGroupPtr> groups_;
  CollectiveTimes inside_hosts_;
};

}  // namespace hookline
