// Chooses a model's communication hook while it trains.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/checks/hook_settings.h"
#include "config/schema/link_text.h"
#include "parallel/choice/choice_report.h"
#include "parallel/choice/observed_steps.h"
#include "parallel/choice/setting_list.h"
#include "parallel/choice/step_predictor.h"
#include "parallel/ddp/ddp.h"
#include "prediction/choice_rule.h"
#include "prediction/decision.h"

namespace hookline {

/// How many steps each phase of a choice takes; if steps are long, fewer.
struct ChoiceSteps {
  int settling = 3;       // before anything is measured: buckets are rebuilt, caches and allocators fill
  int plain = 25;         // measured without a hook
  int deferred = 6;       // measured with all communication after backward, following an unmeasured one
  int skipped = 2;        // of a new hook, before its steps count
  int first_window = 20;  // measured with a new hook, to decide whether it is kept
  int window = 50;        // between two checks of the link and of the step time
  /// If steps are short, measure a new hook for this long, in up to 3 x `first_window` steps.
  double least_seconds = 0.3;
  /// Target duration of a phase, ten times that for `window`; at least a fifth of the steps are taken.
  double seconds = 2;
};

struct ChoiceOptions {
  ChoiceSteps steps = {};
  WatchRule watch = {};
  // Bucket size limits to choose from besides the config's, the largest first.
  std::vector<std::int64_t> bucket_bytes = {};
  std::optional<NamedLink> link = {};  // between hosts; none: it is measured
  // A hook is dropped if ‖g - e‖ / ‖e‖ of its gradients g and the exact ones e exceeds this.
  double max_error = std::numeric_limits<double>::infinity();
  bool try_each = false;  // measure steps with each setting instead of predicting them; always so on a GPU
  // Also time and predict settings that can't gain, however long that takes; each setting that is tried is
  // measured once.
  bool predict_all = false;
};

/// Trains without a hook at first; measures steps, the link and the hooks' own work; predicts the step time
/// with each setting; and measures the settings predicted to be fastest (see Decision). The fastest one
/// stays. Then it watches the step time, the link and the hook's error, and chooses again if they change. If
/// the new choice equals the old one, the next change must last twice as long to count, up to eight times as
/// long.
///
/// All ranks decide at the same step, from means over the ranks; rank 0 makes and logs each decision. Not
/// synchronised.
class HookChooser {
 public:
  /// `settings` may be chosen, the most exact first; "no hook" is added in front, and each setting is
  /// combined with each bucket size. `ddp` has no hook yet, and must outlive this object.
  /// Throws Error for ranks that average inside hosts first, for a sharded optimizer, and for a model that
  /// has a hook.
  HookChooser(std::shared_ptr<World> world, Ddp& ddp, std::vector<HookSetting> settings,
              ChoiceOptions options = {});

  /// To be called between two steps, as Ddp::after_each_step does. A collective call where something is
  /// decided. Throws Error if the program has registered a hook by hand.
  void after_step();

  /// The name of the setting in use, "no hook" for none; null if no choice is in effect.
  const std::string* chosen() const { return has_chosen() ? &settings_[in_use_].name : nullptr; }
  /// How often the setting in use changed, including changes to no hook for measuring again.
  int exchanges() const { return exchanges_; }
  ChoiceReport report() const;
  /// True before the first step of a run that has resumed a choice.
  bool has_resumed() const { return steps_ == 0 && settled_.has_value(); }
  /// True once the steps of the chosen setting have confirmed the choice.
  bool is_settled() const { return phase_ == Phase::watching || has_no_choice(); }

  /// The state of the choice, for a checkpoint; null if there is nothing to choose.
  nlohmann::json save() const;
  /// Resumes the choice that save() returned in an earlier run, and attaches its hook. Call it before the
  /// first forward. Returns an empty string, or the reason why the choice can't be used; it is then made
  /// again. A collective call.
  std::string resume(const nlohmann::json& saved);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { settling, plain, deferred, proving, watching };

  /// Nothing is sent, or no hook may be used.
  bool has_no_choice() const {
    return world_->size() == 1 || (settings_.size() == 1 && !options_.predict_all);
  }
  bool has_chosen() const {
    return phase_ == Phase::watching ||
           (phase_ == Phase::proving && (!options_.try_each || decision_.is_final()));
  }
  void begin(Phase phase);
  int count_of(int most, double seconds) const;
  void end_phase();
  void end_plain();
  std::size_t finest_layout() const;
  void decide();
  void prove();
  void look();
  void use(std::size_t setting);
  void choose_again(const std::string& why);
  void note_error();
  bool gives_up();
  void give_up_from(std::size_t setting);
  bool is_far_behind() const;
  double agreed_step() const;
  /// The fastest setting's step, among those that were in use.
  double fastest_measured() const;
  void choose_probe();
  std::size_t agreed_next();
  void explain(std::size_t choice) const;
  void continue_with(std::size_t next);
  bool is_measured(std::size_t setting) const {
    return setting == 0 ? plain_ > 0 : decision_.is_measured(setting);
  }
  double probe_link();
  void log(const std::string& text) const;

  std::shared_ptr<World> world_;
  Ddp& ddp_;
  ChoiceOptions options_;
  SettingList settings_;
  StepPredictor predictor_;
  Phase phase_ = Phase::settling;
  int left_ = 0;     // steps left in this phase
  int counted_ = 0;  // how many of its last steps are measured
  std::optional<Clock::time_point> last_;
  std::vector<double> periods_;  // of this phase's steps
  std::optional<ObservedSteps> observed_;
  /// One for each bucket size; empty if the model's buckets are as with an earlier size.
  std::vector<BucketParameters> layouts_;

  std::size_t in_use_ = 0;
  int exchanges_ = 0;
  double step_ = 0;        // the latest that all ranks have agreed on
  double plain_ = 0;       // a step without a hook, measured
  double plain_mean_ = 0;  // on this rank, with all disturbances
  Decision decision_{{}};
  std::vector<ChoiceReport::Setting> predicted_;  // as the choice was made
  std::optional<double> largest_error_;           // of the setting in use
  bool is_resumed_ = false;                       // and its steps are not yet known to be as they were
  std::int64_t steps_ = 0, in_use_since_ = 0;
  std::optional<std::size_t> settled_;  // the last setting that was chosen for good, by its measured steps
  std::int64_t settled_at_ = 0;         // the step after which it came into use
  double measuring_seconds_ = 0, measuring_before_ = 0;  // in all; before the current choice

  std::int64_t probe_bytes_ = 0;
  double probe_seconds_ = 0, watched_step_ = 0;
  ChoiceWatch watch_;
  int patience_ = 1;                         // factor of the number of windows that a change must last
  std::optional<std::size_t> before_alarm_;  // the setting in use when the last change was seen
};

}  // namespace hookline
