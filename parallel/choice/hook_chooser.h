// Chooses a model's communication hook while it trains.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooks/option.h"
#include "parallel/choice/deferred_average.h"
#include "parallel/ddp.h"
#include "prediction/choose.h"
#include "prediction/collective_times.h"
#include "prediction/step_plan.h"

namespace hookline {

/// A hook, as the config names one.
struct HookSetting {
  std::string name;  // for people
  std::string hook, wrapper = "no";
  OptionMap options = {};
};

/// How many steps a chooser takes for what.
struct ChoiceSteps {
  int settling = 3;       // before anything is measured: buckets are rebuilt, caches and allocators fill
  int plain = 8;          // measured without a hook
  int deferred = 4;       // measured with all communication behind backward
  int skipped = 2;        // of a new hook, before its steps count
  int first_window = 20;  // of a new hook: it is kept or given up by them
  int window = 50;        // between two looks at the link and the step
};

/// Trains without a hook at first, measures steps, link and the hooks' own work, predicts the step's time with each setting, and
/// exchanges the model's hook for the best. Then it measures that hook's own steps: if another setting, or no hook, is at least 3 % faster
/// than they are, that takes over. From then on it watches the step and the link, and chooses anew if they change.
///
/// All ranks decide at the same step, by means over the ranks, and rank 0's decision counts. Rank 0 logs each decision. On the CPU.
/// Not synchronised.
class HookChooser {
 public:
  /// `settings`: what may be chosen, the most exact ones first; no hook is added in front. `ddp`, which has no hook yet, outlives this.
  /// Throws Error for a model on a GPU, for ranks that average inside hosts first, for a sharded optimizer, and for a model that has a
  /// hook.
  HookChooser(std::shared_ptr<World> world, Ddp& ddp, std::vector<HookSetting> settings,
              ChoiceSteps steps = {}, WatchRule watch_rule = {});

  /// To be called between two steps, as Ddp::after_each_step does. A collective call where something is decided.
  void after_step();

  /// The name of the setting in use, "no hook" for none; null while steps are measured.
  const std::string* chosen() const { return has_chosen() ? &settings_[in_use_].name : nullptr; }
  /// How often another setting than before came into use, no hook for measuring anew included.
  int exchanges() const { return exchanges_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { settling, plain, deferred, proving, watching };

  /// A step that was measured with deferred communication; in seconds.
  struct Observed {
    double before = 0, after = 0;
    std::vector<double> ready;
  };

  bool has_chosen() const { return phase_ == Phase::proving || phase_ == Phase::watching; }
  void begin(Phase phase);
  void end_phase();
  void observe(Clock::time_point now);
  void decide();
  void prove();
  void look();
  void use(std::size_t setting);
  StepPlan agreed_plan() const;
  double agreed_median(std::vector<double> values) const;
  void predict(const StepPlan& plan);
  void measure_machine();
  void choose_probe();
  std::vector<BucketCost> agreed_cost(const HookSetting& setting) const;
  double seconds_with(const StepPlan& plan, std::vector<BucketCost> costs) const;
  std::size_t agreed_choice() const;
  double probe_link() const;
  std::size_t fastest_other() const;
  void log(const std::string& text) const;

  std::shared_ptr<World> world_;
  Ddp& ddp_;
  std::vector<HookSetting> settings_;
  ChoiceSteps steps_;
  Phase phase_ = Phase::settling;
  int left_ = 0;  // steps of the phase that are not over
  std::optional<Clock::time_point> last_;
  std::vector<double> periods_;  // of this phase's steps
  std::vector<Observed> observed_;
  std::shared_ptr<BucketMoments> moments_;

  std::size_t in_use_ = 0;
  int exchanges_ = 0;
  double plain_ = 0;             // a step without a hook, measured
  std::vector<double> seconds_;  // a step with each setting, measured once it was in use; 0: not predicted
  std::vector<bool> is_measured_;
  double predicted_ = 0;  // of the setting in use, when it was chosen
  Machine machine_;
  ProcessGroupPtr probe_group_;
  std::int64_t probe_bytes_ = 0;
  double probe_seconds_ = 0, watched_step_ = 0;
  WatchRule watch_rule_;
  ChoiceWatch watch_;
};

}  // namespace hookline
