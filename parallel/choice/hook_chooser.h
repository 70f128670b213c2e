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
#include "parallel/choice/choice_report.h"
#include "parallel/choice/observed_steps.h"
#include "parallel/choice/setting_list.h"
#include "parallel/choice/step_predictor.h"
#include "parallel/ddp/ddp.h"
#include "prediction/choose.h"
#include "prediction/decision.h"

namespace hookline {

/// How many steps a chooser takes for what, at most: of long steps it takes fewer.
struct ChoiceSteps {
  int settling = 3;       // before anything is measured: buckets are rebuilt, caches and allocators fill
  int plain = 25;         // measured without a hook
  int deferred = 6;       // measured with all communication behind backward
  int skipped = 2;        // of a new hook, before its steps count
  int first_window = 20;  // of a new hook: it is kept or given up by them
  int window = 50;        // between two looks at the link and the step
  double least_seconds =
      0.3;  // for which a new hook's steps are measured, but in no more than three times `first_window`
  double seconds =
      2;  // what is measured takes about so long, and `window` ten times as long, but no less than a fifth of the steps
};

struct ChoiceOptions {
  ChoiceSteps steps = {};
  WatchRule watch = {};
  // Buckets to choose from beside those that there are: bytes at which one is full, the largest first.
  std::vector<std::int64_t> bucket_bytes = {};
  // ‖g - e‖ / ‖e‖ of a hook's gradients and the exact ones, above which it is given up.
  double max_error = std::numeric_limits<double>::infinity();
  bool try_each = false;     // measure steps with each setting instead of predicting them; always so on a GPU
  bool predict_all = false;  // also what can't gain, however long it takes to time
};

/// Trains without a hook at first, measures steps, link and the hooks' own work, predicts the step's time with each setting, and
/// measures the steps of those that are predicted to be fastest (Decision). The fastest of them stays. From then on it watches the step,
/// the link and the hook's error, and chooses anew if they change. A change after which the choice is the same must last twice as long the
/// next time, up to eight times.
///
/// All ranks decide at the same step, by means over the ranks, and rank 0's decision counts. Rank 0 logs each decision. Not synchronised.
class HookChooser {
 public:
  /// `settings`: what may be chosen, the most exact ones first; no hook is added in front, and each in each size of buckets. `ddp`, which
  /// has no hook yet, outlives this.
  /// Throws Error for ranks that average inside hosts first, for a sharded optimizer, and for a model that has a hook.
  HookChooser(std::shared_ptr<World> world, Ddp& ddp, std::vector<HookSetting> settings,
              ChoiceOptions options = {});

  /// To be called between two steps, as Ddp::after_each_step does. A collective call where something is decided.
  /// Throws Error if the program has registered a hook by hand.
  void after_step();

  /// The name of the setting in use, "no hook" for none; null while steps are measured.
  const std::string* chosen() const { return has_chosen() ? &settings_[in_use_].name : nullptr; }
  /// How often another setting than before came into use, no hook for measuring anew included.
  int exchanges() const { return exchanges_; }
  ChoiceReport report() const;
  /// Has a choice been made, by the steps of what was chosen?
  bool is_settled() const { return phase_ == Phase::watching || has_no_choice(); }

  /// The choice for a checkpoint; null while there is none.
  nlohmann::json save() const;
  /// Goes on with the choice that another run's save() returned, before the first forward: its hook is there when this returns. Returns
  /// why it can't be used, so that steps are measured anew; empty if it is. A collective call.
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
  void choose_probe();
  std::size_t agreed_next();
  void explain(std::size_t choice) const;
  void go_on_with(std::size_t next);
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
  int left_ = 0;     // steps of the phase that are not over
  int counted_ = 0;  // of its steps, the last ones, in what is measured
  std::optional<Clock::time_point> last_;
  std::vector<double> periods_;  // of this phase's steps
  std::optional<ObservedSteps> observed_;
  std::vector<BucketParameters>
      layouts_;  // a size of buckets each; empty where the model's are as in an earlier one

  std::size_t in_use_ = 0;
  int exchanges_ = 0;
  double step_ = 0;  // the latest that all ranks have agreed on
  double fastest_measured_ = 0;
  double plain_ = 0;  // a step without a hook, measured
  Decision decision_{{}};
  std::vector<ChoiceReport::Setting> predicted_;  // as the choice was made
  std::optional<double> largest_error_;           // of the setting in use
  bool is_resumed_ = false;                       // and its steps are not yet known to be as they were
  std::int64_t steps_ = 0, chosen_at_ = 0;
  double measuring_seconds_ = 0;

  std::int64_t probe_bytes_ = 0;
  double probe_seconds_ = 0, watched_step_ = 0;
  ChoiceWatch watch_;
  int patience_ = 1;                         // times the windows that a change must last
  std::optional<std::size_t> before_alarm_;  // the setting in use when the last change was seen
};

}  // namespace hookline
