#include "parallel/choice/hook_chooser.h"

#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/duration_text.h"
#include "base/text/number_text.h"
#include "parallel/choice/bucket_sizes.h"
#include "parallel/choice/hook_in_use.h"
#include "parallel/choice/link_cost.h"
#include "parallel/choice/measures.h"
#include "parallel/tensors/sizes.h"

namespace hookline {
namespace {

// The share of a window's time that checking the link may take, with all of its all-reduces.
constexpr double kProbePart = 0.01;
// An all-reduce that takes less than this many latencies shows nothing about bandwidth.
constexpr double kLatencies = 3;
constexpr int kMostPatience = 8;
// A trial ends early if its first steps are kFarBehind times as slow as the fastest setting. They are one
// kFirstPart-th of its steps, but at least kLeastOfFirstPart.
constexpr int kFirstPart = 5, kLeastOfFirstPart = 8;
constexpr double kFarBehind = 1.08;
// What promises no gain is measured as long as all measuring for a choice costs less than this many plain
// steps.
constexpr double kAffordableSteps = 6;

// The first step is not timed, and the first deferred one does not count.
static_assert(kStepsBeforeAChoice ==
              1 + ChoiceSteps().settling + ChoiceSteps().plain + 1 + ChoiceSteps().deferred);

/// By how much these steps took longer than as many steps of `usual` seconds. A mean is to be compared with a
/// mean: noise delays some steps of each setting.
double beyond(double usual, const std::vector<double>& steps) {
  return steps.empty() ? 0 : static_cast<double>(steps.size()) * std::max(0.0, mean(steps) - usual);
}

std::string time_of(double seconds) { return duration_text(std::chrono::duration<double>(seconds)); }

}  // namespace

HookChooser::HookChooser(std::shared_ptr<World> world, Ddp& ddp, std::vector<HookSetting> settings,
                         ChoiceOptions options)
    : world_(std::move(world)),
      ddp_(ddp),
      options_(std::move(options)),
      settings_(std::move(settings), !options_.try_each && has_scopes(*world_), options_.bucket_bytes),
      predictor_(world_, options_.link) {
  if (ddp.options().hook_between_hosts)
    throw Error(
        "[ddp] comm_hook = \"auto\" tries its hook between hosts by itself: leave comm_scope out, or name a "
        "hook");
  if (ddp.hook())
    throw Error("[ddp] comm_hook = \"auto\": the model has the hook '" + ddp.hook()->describe() +
                "' already; register none by hand");
  if (ddp.shards_optimizer())
    throw Error(
        "[ddp] comm_hook = \"auto\" does not work with shard_optimizer = true: name a hook, or leave "
        "shard_optimizer out");
  const ChoiceSteps& steps = options_.steps;
  for (const int count : {steps.settling, steps.plain, steps.deferred, steps.first_window, steps.window})
    if (count < 1) throw Error("each number of steps in ChoiceSteps but `skipped` must be at least 1");
  if (!world_->device().is_cpu()) options_.try_each = true;
  predicted_.assign(settings_.size(), {});
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < settings_.size(); ++i) contenders.push_back({settings_.hook_of(i), 1});
  DecisionRule rule;
  rule.try_each = options_.try_each;
  if (options_.try_each || options_.predict_all) rule.rounds = 1;
  decision_ = Decision(std::move(contenders), rule);
  begin(Phase::settling);
}

void HookChooser::begin(Phase phase) {
  phase_ = phase;
  periods_.clear();
  const ChoiceSteps& steps = options_.steps;
  switch (phase) {
    case Phase::settling:
      left_ = steps.settling;
      break;
    case Phase::plain:
      left_ = count_of(steps.plain, steps.seconds);
      break;
    case Phase::deferred:
      left_ = 1 + count_of(steps.deferred, steps.seconds);
      break;
    case Phase::proving: {
      const std::int64_t start = ddp_.hook() ? ddp_.hook()->first_full_step() : 0;
      counted_ = count_of(steps.first_window, steps.seconds);
      if (step_ > 0 &&
          counted_ == steps.first_window)  // more if steps are short, since one delay is long beside them
        counted_ = static_cast<int>(std::clamp(steps.least_seconds / step_, 1.0 * counted_, 3.0 * counted_));
      left_ = static_cast<int>(start) + steps.skipped + counted_;
      break;
    }
    case Phase::watching:
      left_ = count_of(steps.window, 10 * steps.seconds);
      break;
  }
}

/// The number of steps that take about `seconds` now; at most `most`, and at least a fifth of that.
int HookChooser::count_of(int most, double seconds) const {
  const int least = std::max(1, most / 5);
  if (step_ <= 0 || step_ * most <= seconds) return most;
  return std::clamp(static_cast<int>(seconds / step_), least, most);
}

void HookChooser::after_step() {
  if (has_no_choice()) return;
  ++steps_;
  // The host runs ahead of a GPU, so wait for the GPU where a window begins and ends.
  if (!world_->device().is_cpu() && (periods_.empty() || left_ == 1))
    c10::impl::VirtualGuardImpl(world_->device().type()).synchronizeDevice(world_->device().index());
  const auto now = Clock::now();
  if (last_) {
    periods_.push_back(seconds_of(now - *last_));
    if (phase_ == Phase::deferred) observed_->add(*last_, ddp_.backward_began_at(), now);
    note_error();
    --left_;
    if (is_far_behind()) {
      counted_ -= left_;
      left_ = 0;
    }
    if (left_ == 0) {
      end_phase();
      if (phase_ != Phase::watching) measuring_seconds_ += seconds_of(Clock::now() - now);
    }
  }
  last_ = Clock::now();  // deciding counts towards no step
}

void HookChooser::end_phase() {
  switch (phase_) {
    case Phase::settling:
      if (ddp_.hook())
        throw Error("[ddp] comm_hook = \"auto\": the program has registered the hook '" +
                    ddp_.hook()->describe() + "' by hand; register none, or set comm_hook = \"no\"");
      step_ = agreed_step();
      return begin(Phase::plain);
    case Phase::plain:
      return end_plain();
    case Phase::deferred:
      return decide();
    case Phase::proving:
      return prove();
    case Phase::watching:
      return look();
  }
}

/// True if the first steps of a setting on trial show that it is far slower than the fastest. Checked once in
/// each trial. A hook that was measured before always gets all of its steps.
bool HookChooser::is_far_behind() const {
  if (phase_ != Phase::proving || is_resumed_ || !world_->device().is_cpu()) return false;
  if (in_use_ != 0 && is_measured(in_use_)) return false;
  const int part = std::max(counted_ / kFirstPart, kLeastOfFirstPart);
  if (counted_ < 2 * part || left_ != counted_ - part) return false;
  const std::vector<double> first(periods_.end() - part, periods_.end());
  return means_over_ranks(*world_, {lower_quartile(first)})[0] > kFarBehind * fastest_measured();
}

double HookChooser::fastest_measured() const {
  double fastest = plain_;
  for (std::size_t i = 1; i < settings_.size(); ++i)
    if (is_measured(i) && !decision_.is_dropped(i)) fastest = std::min(fastest, decision_.seconds(i));
  return fastest;
}

/// The time of a step, averaged over ranks. On a GPU only the ends of a window are known, so it is the
/// window's mean.
double HookChooser::agreed_step() const {
  const double own = world_->device().is_cpu() ? lower_quartile(periods_) : mean(periods_);
  return means_over_ranks(*world_, {own})[0];
}

void HookChooser::end_plain() {
  plain_ = step_ = agreed_step();
  plain_mean_ = mean(periods_);
  predicted_.assign(settings_.size(), {});
  if (layouts_.empty()) layouts_ = layouts_of(ddp_.buckets(), options_.bucket_bytes);
  measuring_before_ = measuring_seconds_;
  for (std::size_t i = 0; i < settings_.size(); ++i)
    decision_.set_buckets(i, layouts_[settings_.size_of(i)].size());
  decision_.begin(plain_);
  if (options_.try_each) {
    use(agreed_next());
    return begin(Phase::proving);
  }
  observed_.emplace();
  ddp_.exchange_hook([this](const HookContext& context) { return observed_->make_hook(context); },
                     layouts_[finest_layout()]);
  begin(Phase::deferred);
}

/// The layout with the smallest buckets: those of all other layouts consist of them, or nearly so.
std::size_t HookChooser::finest_layout() const {
  const auto finest = std::max_element(layouts_.begin(), layouts_.end(),
                                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return static_cast<std::size_t>(finest - layouts_.begin());
}

/// Chooses the largest all-reduce with which a window can check the link, given the current time of a step. A
/// collective call where the config names the link.
void HookChooser::choose_probe() {
  probe_bytes_ = 0;
  probe_seconds_ = 0;
  if (!predictor_.measured()) return;  // nothing was predicted here
  const CollectiveTimes& times = predictor_.measured()->machine.full;
  const int window = count_of(options_.steps.window, 10 * options_.steps.seconds);
  const double affordable = kProbePart * window * watched_step_ / kLooks;
  for (const CollectiveTime& each : times.measured())
    if (each.seconds >= kLatencies * times.latency() && each.seconds <= affordable)
      std::tie(probe_bytes_, probe_seconds_) = std::pair(static_cast<std::int64_t>(each.bytes), each.seconds);
  if (predictor_.has_named_link()) probe_seconds_ = probe_link();  // what is compared must be measured
}

/// Rank 0's decision, on all ranks.
std::size_t HookChooser::agreed_next() {
  const at::Tensor next =
      at::tensor({static_cast<std::int64_t>(decision_.next())}, at::kLong).to(world_->device());
  world_->broadcast({next});
  return static_cast<std::size_t>(next.item<std::int64_t>());
}

void HookChooser::use(std::size_t setting) {
  if (setting != in_use_) ++exchanges_;
  in_use_ = setting;
  in_use_since_ = steps_;
  largest_error_.reset();
  if (decision_.seconds(setting) > 0) step_ = decision_.seconds(setting);
  use_setting(*world_, ddp_, settings_[setting],
              layouts_.empty() ? BucketParameters() : layouts_[settings_.size_of(setting)]);
}

void HookChooser::decide() {
  measuring_seconds_ += beyond(plain_mean_, periods_);
  const ObservedStep observed{plain_, observed_->agreed_plan(*world_), ddp_.buckets()};
  observed_.reset();
  for (const auto& [setting, seconds, margin, how] :
       predictor_.predict(observed, settings_, layouts_, options_.predict_all)) {
    predicted_[setting].predicted = seconds;
    predicted_[setting].margin = margin;
    predicted_[setting].how = how;
    decision_.predict(setting, seconds);
  }
  const std::size_t first = agreed_next();
  use(first);
  explain(first);
  begin(Phase::proving);
}

void HookChooser::explain(std::size_t choice) const {
  if (choice != 0) {
    log(settings_[choice].name + " is predicted to take " + time_of(decision_.seconds(choice)) +
        " a step; without a hook, a step takes " + time_of(plain_));
  } else if (const std::size_t other = decision_.fastest_except(0); other != 0) {
    log("trains without a hook, which takes " + time_of(plain_) + " a step; " + settings_[other].name +
        " is predicted to take " + time_of(decision_.seconds(other)));
  } else if (settings_.size() == 1) {
    log("trains without a hook, which takes " + time_of(plain_) + " a step: [ddp.auto] permits no other");
  } else {
    log("trains without a hook, which takes " + time_of(plain_) +
        " a step: communication takes too little of it for another setting to pay");
  }
}

void HookChooser::note_error() {
  if (in_use_ == 0) return;
  ddp_.take_compression_error();  // if the metrics have not taken it yet
  const auto latest = ddp_.latest_compression_error();
  // NaN counts as larger than any number, in both places.
  if (latest && !(largest_error_ && (std::isnan(*largest_error_) || *latest <= *largest_error_)))
    largest_error_ = latest;
}

/// True if the hook in use is too far from the exact average. It is then dropped for good.
bool HookChooser::gives_up() {
  if (in_use_ == 0) return false;
  const double error = means_over_ranks(*world_, {largest_error_.value_or(0)})[0];
  if (std::isfinite(error) && error <= options_.max_error) return false;
  log(settings_[in_use_].name + " is dropped: the relative error of its gradients was " + rounded(error, 3) +
      (std::isfinite(options_.max_error) ? ", above [ddp.auto] max_error = " + rounded(options_.max_error, 3)
                                         : std::string()));
  give_up_from(in_use_);
  return true;
}

/// Drops a setting whose error is too large, and all settings of the same hook that compress as much or more;
/// those that compress more come later.
void HookChooser::give_up_from(std::size_t setting) {
  const auto is_as_exact = [&](const HookSetting& each) {
    return each.hook == settings_[setting].hook && each.options == settings_[setting].options;
  };
  const auto first = std::find_if(settings_.begin(), settings_.end(), is_as_exact);
  for (auto i = static_cast<std::size_t>(first - settings_.begin()); i < settings_.size(); ++i) {
    if (settings_[i].hook != settings_[setting].hook) continue;
    decision_.drop(i);
    if (settled_ == i) settled_.reset();
  }
}

void HookChooser::prove() {
  const std::vector<double> all = std::exchange(periods_, {});
  const std::vector<double> skipped(all.begin(), all.end() - counted_);
  periods_.assign(all.end() - counted_, all.end());
  const double measured = step_ = agreed_step();
  const bool is_dropped = gives_up();
  if (is_resumed_ && std::abs(measured - watched_step_) > options_.watch.step * watched_step_) {
    choose_again("a step takes " + time_of(measured) + " instead of " + time_of(watched_step_) +
                 " before the checkpoint");
    return;
  }
  is_resumed_ = false;
  if (!is_dropped) {
    decision_.measure(in_use_, measured);
    for (std::size_t i = 1; i < settings_.size(); ++i)  // which has corrected the other predictions
      if (!is_measured(i) && decision_.seconds(i) > 0) predicted_[i].predicted = decision_.seconds(i);
    watched_step_ = measured;
    if (in_use_ == 0) plain_ = decision_.seconds(0);
  }
  const double usual = is_dropped ? measured : decision_.seconds(in_use_);
  measuring_seconds_ += static_cast<double>(all.size()) * std::max(0.0, usual - fastest_measured()) +
                        beyond(mean(periods_), skipped);
  const double expected = predicted_[in_use_].predicted;
  if (in_use_ != 0 && !is_dropped)
    log(settings_[in_use_].name + " takes " + time_of(measured) + " a step; " +
        (expected > 0 ? "predicted " + time_of(expected) + ", " : "") + "no hook " + time_of(plain_));
  if (!options_.predict_all) {
    const double spent = measuring_seconds_ - measuring_before_;
    decision_.afford((kAffordableSteps * plain_ - spent) / static_cast<double>(all.size()));
  }
  continue_with(agreed_next());
}

/// Switches to `next`. If that is the setting in use, the choice is final: watches it.
void HookChooser::continue_with(std::size_t next) {
  if (next != in_use_) {
    const std::string took = ", which takes " + time_of(decision_.seconds(next)) + " a step";
    if (decision_.is_final()) {
      log("switches from " + settings_[in_use_].name + " to " + settings_[next].name + took);
    } else if (next == 0 || is_measured(next)) {
      log("measures again: " + settings_[next].name);
    } else if (decision_.seconds(next) > 0) {
      log("also tries " + settings_[next].name + ", which is predicted to take " +
          time_of(decision_.seconds(next)) + " a step");
    }
    use(next);
    return begin(Phase::proving);
  }
  log(settings_[in_use_].name + " stays: it takes " + time_of(decision_.seconds(in_use_)) + " a step" +
      (in_use_ == 0 ? "" : ", no hook " + time_of(plain_)));
  settled_ = in_use_;
  settled_at_ = in_use_since_;
  patience_ = before_alarm_ == in_use_ ? std::min(2 * patience_, kMostPatience) : 1;
  before_alarm_.reset();
  WatchRule rule = options_.watch;
  rule.windows *= patience_;
  watch_ = ChoiceWatch(rule);
  choose_probe();
  begin(Phase::watching);
}

double HookChooser::probe_link() { return probe_bytes_ == 0 ? 0 : predictor_.time_all_reduce(probe_bytes_); }

void HookChooser::look() {
  const double probed = probe_link();
  const double probes =
      probe_bytes_ > 0 ? static_cast<double>(bytes_of(ddp_.parameters())) / static_cast<double>(probe_bytes_)
                       : 0;
  step_ = agreed_step();
  const Window window{step_, watched_step_, probes * probed, probes * probe_seconds_,
                      in_use_ == 0 ? 0 : plain_};
  if (gives_up()) {
    use(0);
    return begin(Phase::plain);
  }
  if (!watch_.sees_change(window)) return begin(Phase::watching);
  choose_again("a step takes " + time_of(window.step) + " instead of " + time_of(window.step_before) +
               (in_use_ == 0 ? "" : " (" + time_of(plain_) + " without a hook)") +
               (probed > 0 ? ", and an all-reduce of " + bytes_text(probe_bytes_) + " takes " +
                                 time_of(probed) + " instead of " + time_of(probe_seconds_)
                           : ""));
}

void HookChooser::choose_again(const std::string& why) {
  log(why + ": choosing again");
  before_alarm_ = in_use_;
  is_resumed_ = false;
  if (in_use_ != 0) use(0);
  begin(Phase::plain);
}

void HookChooser::log(const std::string& text) const {
  if (world_->rank() == 0) log::info("comm_hook auto: " + text);
}

ChoiceReport HookChooser::report() const {
  ChoiceReport report;
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    if ((settings_.size_of(i) != 0 || settings_[i].between_hosts) && predicted_[i].predicted <= 0 &&
        !is_measured(i))
      continue;
    ChoiceReport::Setting row = predicted_[i];
    row.name = settings_[i].name;
    row.hook = settings_[i].hook;
    row.bucket_bytes = settings_[i].bucket_bytes;
    row.is_given_up = decision_.is_dropped(i);
    if (is_measured(i)) row.measured = decision_.seconds(i);
    report.settings.push_back(std::move(row));
  }
  if (has_no_choice())
    report.chosen = settings_[0].name;
  else if (settled_)
    report.chosen = settings_[*settled_].name;
  report.is_settled = is_settled();
  report.step = settled_at_;
  report.exchanges = exchanges_;
  report.measuring_seconds = measuring_seconds_;
  report.measured = predictor_.measured();
  return report;
}

}  // namespace hookline
