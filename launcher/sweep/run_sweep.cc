#include "launcher/sweep/run_sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/progress_line.h"
#include "launcher/sweep/progress_text.h"
#include "launcher/sweep/stopping.h"
#include "launcher/sweep/table.h"
#include "launcher/sweep/trial_files.h"
#include "launcher/sweep/trial_process.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kLookAtTrialsEvery{200};

/// The name of the `index`-th GPU that this process sees.
std::string gpu_name(std::size_t index) {
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!variable) return std::to_string(index);
  std::string_view names = variable;
  for (; index > 0; --index) names.remove_prefix(std::min(names.size(), names.find(',') + 1));
  return std::string(names.substr(0, names.find(',')));
}

/// A running trial.
struct Running {
  std::size_t index = 0;  // among the trials
  std::size_t place = 0;
  std::unique_ptr<TrialRun> trial;
  std::int64_t rung = 0;     // the last at which it was compared with others
  std::size_t compared = 0;  // values that it had logged at the last check
};

class Sweep {
 public:
  Sweep(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals)
      : run_(run),
        state_(state),
        signals_(signals),
        trials_(known_trials(run.folder, plan, yardstick_of(run.settings), state)),
        places_(static_cast<std::size_t>(places_of(run)), false),
        line_(run.is_terminal) {
    signals_.around_suspension({[this] { suspend(); },
                                [this](TrialRun::Clock::duration suspended) {
                                  for (const Running& each : running_) each.trial->resume(suspended);
                                }});
    for (const Trial& trial : trials_) {
      if (trial.result.status == TrialStatus::waiting || !run_.settings.stops_early()) continue;
      MetricsFile metrics(metrics_of(folder_of(trial)), run_.settings.metric);
      metrics.finish();
      if (const std::string loss = metrics.loss(); !loss.empty()) log::warning(loss);
      remember(trial.result.status, metrics.points());
    }
  }

  ~Sweep() { signals_.around_suspension({}); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  SweepEnd run() {
    while (true) {
      start_what_fits();
      if (running_.empty()) break;
      if (const auto signal = wait()) {
        stop_all(*signal);
        return {has_failed(), *signal};
      }
      look();
      show();
    }
    line_.erase();
    return {has_failed(), std::nullopt};
  }

 private:
  fs::path folder_of(const Trial& trial) const { return folder_of_trial(run_.folder, trial.planned.id); }

  /// Keeps a history with which other trials are compared.
  void remember(TrialStatus status, const History& history) {
    if (status == TrialStatus::done) done_.push_back(history);
    if (status == TrialStatus::stopped) stopped_.push_back(history);
  }

  bool has_failed() const { return any_failed(trials_); }
  std::size_t ended() const { return count_ended(trials_); }

  /// Why no more trials may start; empty if one may.
  std::string obstacle() const {
    const SweepSettings& settings = run_.settings;
    const std::size_t begun = ended() + running_.size();
    if (settings.budget_trials && static_cast<std::int64_t>(begun) >= *settings.budget_trials)
      return "budget_trials is used up: " + count_text(begun, "trial");
    if (const double used = seconds_used(trials_); settings.budget && used >= *settings.budget)
      return "budget_seconds is used up: trials have run for " + seconds_text(Seconds(used));
    if (settings.failed == "stop" && has_failed()) return "a trial has failed, and failed = \"stop\"";
    return "";
  }

  void start_what_fits() {
    while (true) {
      const auto place = std::find(places_.begin(), places_.end(), false);
      while (next_ < trials_.size() && trials_[next_].result.status != TrialStatus::waiting) ++next_;
      if (place == places_.end() || next_ == trials_.size()) return;
      if (const std::string why = obstacle(); !why.empty()) {
        if (!told_obstacle_) line_.tell("no further trial is begun: " + why);
        told_obstacle_ = true;
        return;
      }
      start(next_, static_cast<std::size_t>(place - places_.begin()));
    }
  }

  void start(std::size_t index, std::size_t place) {
    Trial& trial = trials_[index];
    TrialFolder folder(folder_of(trial));
    folder.clear(/*keeps_plan=*/false);
    state_.begin(trial.planned.id);
    trial.result.status = TrialStatus::running;
    TrialSpec spec{trial.planned, yardstick_of(run_.settings), run_.settings.trial_limit};
    running_.push_back(
        {index, place,
         std::make_unique<TrialRun>(std::move(folder), std::move(spec), place_of(run_, place), signals_), 0});
    places_[place] = true;
  }

  /// Waits a while, or until something happens. Returns a signal if one asks to end.
  std::optional<int> wait() {
    std::vector<int> ends;
    for (const Running& each : running_) ends.push_back(each.trial->end_descriptor());
    return signals_.wait(kLookAtTrialsEvery, ends);
  }

  void look() {
    for (std::size_t i = 0; i < running_.size();) {
      Running& each = running_[i];
      if (each.trial->look()) {
        end(each, each.trial->result());
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      check_hope(each);
      ++i;
    }
  }

  void check_hope(Running& each) {
    const SweepSettings& settings = run_.settings;
    const History& own = each.trial->metrics().points();
    if (each.trial->is_told_to_end() || own.empty() || !settings.stops_early() ||
        trials_[each.index].planned.is_baseline)
      return;
    const Yardstick by = yardstick_of(settings);
    if (own.size() == each.compared) return;
    each.compared = own.size();
    if (has_diverged(own, settings.early_stopping_from))
      return each.trial->tell_to_end(TrialStatus::failed, not_a_number(by, own), by.name_of_early_end());
    const bool by_median = settings.early_stopping == "median";
    const std::int64_t rung = rung_at(own.back().step, settings.early_stopping_from);
    if (!by_median && rung == each.rung) return;
    each.rung = rung;
    std::string why;
    if (by_median) {
      why = hopeless_by_median(own, pointers_to(done_), by.smaller_is_better(), settings.early_stopping_from);
    } else {
      Histories others = pointers_to(done_);  // all that reached the rung, except failed ones
      for (const History& stopped : stopped_) others.push_back(&stopped);
      for (const Running& other : running_)
        if (&other != &each) others.push_back(&other.trial->metrics().points());
      why = hopeless_by_halving(own, others, by.smaller_is_better(), settings.early_stopping_from);
    }
    if (!why.empty()) each.trial->tell_to_end(TrialStatus::stopped, why, by.name_of_early_end());
  }

  void end(const Running& each, const TrialResult& result) {
    Trial& trial = trials_[each.index];
    trial.result = result;
    state_.end(trial.planned.id, result);
    if (run_.settings.stops_early()) remember(result.status, each.trial->metrics().points());
    places_[each.place] = false;
    for (const std::string& warning : each.trial->warnings()) {
      line_.erase();
      log::warning(short_name(trial, run_.same) + ": " + warning);
    }
    line_.tell(line_of(trial, ended(), trials_.size(), run_.settings.metric, run_.same));
  }

  void reset(Trial& trial) {
    trial.result = TrialResult();
    trial.result.status = TrialStatus::waiting;
    state_.reset(trial.planned.id);
  }

  /// Suspends the sweep with all its trials, so that others get their cores.
  void suspend() {
    line_.erase();
    for (const Running& each : running_) each.trial->suspend();
    const auto patience = TrialRun::Clock::now() + kSuspendPatience;
    for (const Running& each : running_) each.trial->wait_until_suspended(patience);
  }

  void stop_all(int signal) {
    line_.erase();
    log::info("stopping " + count_text(running_.size(), "trial"));
    for (const Running& each : running_) each.trial->interrupt(signal);
    while (!running_.empty()) {
      const bool is_asked_again = wait().has_value();
      for (std::size_t i = 0; i < running_.size();) {
        Running& each = running_[i];
        if (!each.trial->look()) {
          if (is_asked_again) each.trial->kill_now();
          ++i;
          continue;
        }
        if (const auto result = each.trial->result_if_done())
          end(each, *result);
        else
          reset(trials_[each.index]);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    log::info("stopped after " + std::to_string(ended()) + " of " + count_text(trials_.size(), "trial") +
              "; " + run_.same_command() + " continues from there");
  }

  std::string time_left() const {
    std::optional<double> left = seconds_left(trials_, run_.settings);
    if (!left) return "";
    for (const Running& each : running_)
      *left -= Seconds(TrialRun::Clock::now() - each.trial->start()).count();
    return time_left_text(*left / static_cast<double>(places_.size()));
  }

  void show() {
    if (!line_.is_wanted()) return;
    std::vector<RunningText> running;
    for (const Running& each : running_)
      running.push_back(
          running_text(trials_[each.index], each.trial->metrics(), run_.settings.metric, run_.same));
    line_.show(line_within(line_.columns(),
                           std::to_string(ended()) + "/" + count_text(trials_.size(), "trial") + time_left(),
                           running));
  }

  static Histories pointers_to(const std::vector<History>& histories) {
    Histories pointers;
    for (const History& each : histories) pointers.push_back(&each);
    return pointers;
  }

  const SweepRun& run_;
  SweepState& state_;
  Signals& signals_;
  std::vector<Trial> trials_;
  std::vector<bool> places_;  // taken
  std::vector<Running> running_;
  std::vector<History> done_, stopped_;  // histories of trials that ended so, if any may be stopped early
  std::size_t next_ = 0;
  bool told_obstacle_ = false;
  ProgressLine line_;
};

}  // namespace

std::int64_t places_of(const SweepRun& run) {
  if (run.settings.max_parallel) return *run.settings.max_parallel;
  const auto all = run.uses_gpus ? static_cast<std::int64_t>(run.machine.gpus)
                                 : static_cast<std::int64_t>(run.machine.cores.size());
  return std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, run.most_ranks));
}

TrialPlace place_of(const SweepRun& run, std::size_t index) {
  TrialPlace place{run.hookline, {}, std::nullopt};
  const auto places = static_cast<std::size_t>(places_of(run));
  if (places < 2) return place;
  const std::size_t cores = run.machine.cores.size() / places;
  const auto first_core = run.machine.cores.begin() + static_cast<std::ptrdiff_t>(index * cores);
  place.cores.assign(first_core, first_core + static_cast<std::ptrdiff_t>(cores));
  const std::size_t gpus = run.uses_gpus ? static_cast<std::size_t>(run.machine.gpus) / places : 0;
  for (std::size_t i = index * gpus; i < (index + 1) * gpus; ++i)
    place.visible_gpus = place.visible_gpus.value_or("") + (place.visible_gpus ? "," : "") + gpu_name(i);
  return place;
}

SweepEnd run_sweep(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals) {
  return Sweep(run, plan, state, signals).run();
}

}  // namespace hookline
