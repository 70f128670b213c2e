#include "launcher/sweep/run_array.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "launcher/schedulers/slurm_array.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/progress_line.h"
#include "launcher/sweep/progress_text.h"
#include "launcher/sweep/table.h"
#include "launcher/sweep/trial_files.h"
#include "launcher/sweep/trial_process.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAtSlurmEvery{1000};
constexpr int kMostFailures = 60;  // consecutive ones, while the controller does not answer
// A file that another machine has written may become visible here only after a while. An element that ended
// by itself has usually left a result; one that was cancelled or killed has not.
constexpr std::chrono::seconds kPatience{5}, kPatienceAfterExit{60};
constexpr std::chrono::seconds kPatienceForSlurm{
    10};  // for a job to show up whose submission was interrupted

class ArraySweep {
 public:
  ArraySweep(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals)
      : run_(run), by_(yardstick_of(run.settings)), state_(state), signals_(signals), line_(run.is_terminal) {
    jobs_ = kept_jobs(run.folder);
    std::set<std::string> busy;
    for (const ArrayJob& job : jobs_)
      for (const auto& [element, id] : job.elements) busy.insert(id);
    trials_ = known_trials(run.folder, plan, by_, state, busy);
    for (std::size_t i = 0; i < trials_.size(); ++i) places_[trials_[i].planned.id] = i;
  }

  /// Waits until Slurm has said which elements are over, and each of those has left a result or counts as
  /// lost. Returns a signal if one comes first.
  std::optional<int> settle() {
    try {
      while (true) {
        const bool has_looked = look_patiently();
        if (has_looked && !waits_for_files_) return std::nullopt;
        if (const auto signal = wait()) return signal;
      }
    } catch (const Interrupted& by) {
      return by.signal;
    }
  }

  /// Trials of the plan that jobs have, with the jobs.
  std::map<std::string, std::string> in_jobs() const {
    std::map<std::string, std::string> found;
    for (const ArrayJob& job : jobs_)
      for (const auto& [element, id] : job.elements)
        if (places_.contains(id)) found[id] = job.number;
    return found;
  }

  void submit(const ArrayRequest& request) {
    lost_ = 0;  // lost trials are submitted again
    std::set<std::string> busy;
    for (const auto& [id, job] : in_jobs()) busy.insert(id);
    const NextTrials next = next_trials(trials_, busy, run_.settings.budget_trials);
    if (next.budget)
      log::info("some trials are not submitted: budget_trials is used up: " +
                count_text(*next.budget, "trial"));
    const std::vector<std::string>& chosen = next.ids;
    if (chosen.empty()) return;
    for (const std::string& id : chosen) {
      const TrialFolder folder(folder_of_trial(run_.folder, id));
      folder.clear(/*keeps_plan=*/false);
      write_plan(folder.path(),
                 {{trials_[places_.at(id)].planned, by_, run_.settings.trial_limit}, fs::current_path()});
    }
    try {
      jobs_.push_back(submit_array(request, run_.folder, chosen, signals_));
    } catch (const LostAnswer& lost) {
      throw LostAnswer(lost.what() + ("; " + run_.same_command()) + " finds out, and then continues");
    }
    const ArrayJob& job = jobs_.back();
    log::info("job " + job.number + " runs " + count_text(chosen.size(), "trial") + "; its logs are in " +
              job.stem.parent_path().string());
  }

  SweepEnd follow() {
    if (const auto signal = follow_to_the_end()) {
      report_what_continues();
      return {any_failed(trials_) || lost_ > 0, signal};
    }
    line_.erase();
    if (lost_ > 0)
      log::info(count_text(lost_, "trial") + (lost_ == 1 ? " is" : " are") + " to run again; " +
                run_.same_command() + " submits " + (lost_ == 1 ? "it" : "them"));
    return {any_failed(trials_) || lost_ > 0, std::nullopt};
  }

  bool has_failed() const { return any_failed(trials_); }

  void report_what_continues() {
    line_.erase();
    for (const ArrayJob& job : jobs_) {
      const auto left = static_cast<std::size_t>(
          std::count_if(job.elements.begin(), job.elements.end(),
                        [&](const auto& each) { return places_.contains(each.second); }));
      if (left > 0)
        log::info("job " + job.number + " continues, with " + count_text(left, "trial") + " to come; " +
                  run_.same_command() + " collects its results, and 'scancel " + job.number + "' cancels it");
    }
  }

 private:
  /// Follows the jobs to their end. Returns a signal if one asks to end first.
  std::optional<int> follow_to_the_end() {
    try {
      while (true) {
        look_patiently();
        if (in_jobs().empty()) return std::nullopt;
        show();
        if (const auto signal = wait()) return signal;
      }
    } catch (const Interrupted& by) {  // came while Slurm did not answer
      return by.signal;
    }
  }

  /// False if Slurm can't say now, which is logged once. Throws SlurmError if that lasts too long.
  bool look_patiently() {
    try {
      look();
      failures_ = 0;
      return true;
    } catch (const NoSlurm&) {
      throw;
    } catch (const SlurmError& error) {
      if (++failures_ == kMostFailures)
        throw SlurmError(error.what() + ("; to ask Slurm once more, run " + run_.same_command()));
      if (failures_ == 1) line_.tell(error.what() + std::string("; hookline keeps asking Slurm"));
      return false;
    }
  }

  /// Asks Slurm about all jobs, and takes in new results.
  void look() {
    waits_for_files_ = false;
    pending_ = running_ = 0;
    for (ArrayJob& job : jobs_) {
      const ArrayQueue queue = array_queue(job.script(), job.number, signals_);
      if (job.number.empty() && !is_known(job, queue)) continue;
      const auto elements = job.elements;  // a copy: settled elements are removed
      for (const auto& [number, id] : elements) {
        const auto found = queue.elements.find(number);
        look_at(job, number, found == queue.elements.end() ? ArrayElement() : found->second);
      }
    }
    std::erase_if(jobs_, [](const ArrayJob& job) { return job.elements.empty(); });
  }

  /// Does Slurm know a job whose submission was interrupted?
  bool is_known(ArrayJob& job, const ArrayQueue& queue) {
    if (!queue.job.empty()) {
      job.number = queue.job;
      keep(job);
      return true;
    }
    if (is_within(job.stem.string(), kPatienceForSlurm)) return false;
    log::warning("Slurm has no job of '" + job.script().string() +
                 "', whose submission was interrupted: " + count_text(job.elements.size(), "trial") +
                 " of it " + (job.elements.size() == 1 ? "is" : "are") + " to run again");
    job.elements.clear();
    keep(job);
    return false;
  }

  /// True while less than `patience` has passed since the first call for `what`.
  bool is_within(const std::string& what, std::chrono::seconds patience) {
    const auto since = gone_since_.emplace(what, Clock::now()).first->second;
    const bool is_within = Clock::now() - since < patience;
    waits_for_files_ = waits_for_files_ || is_within;
    return is_within;
  }

  void look_at(ArrayJob& job, int number, const ArrayElement& element) {
    const std::string id = job.elements.at(number);
    const bool is_gone = element.state.empty() || is_over(element.state);
    const auto place = places_.find(id);
    if (place == places_.end()) {  // not in the sweep any more
      if (is_gone) drop(job, number);
      return;
    }
    Trial& trial = trials_[place->second];
    const TrialStatus status = trial.result.status;
    if (has_ended(status)) return drop(job, number);
    if (element.state == "PENDING") {
      ++pending_;
      reason_ = element.reason;
      gone_since_.erase(id);
      if (status == TrialStatus::running) wait_again(trial);  // it was requeued
      return;
    }
    std::string unreadable;
    try {
      if (take_in_result(run_.folder, by_, trial, state_)) {
        drop(job, number);
        return line_.tell(line_of(trial, count_ended(trials_), trials_.size(), by_.metric, run_.same));
      }
    } catch (const UnreadableResult& error) {
      unreadable = error.what();
    }
    if (!is_gone) {
      ++running_;
      gone_since_.erase(id);
      if (status == TrialStatus::running) return;
      state_.begin(id);
      trial.result.status = TrialStatus::running;
      return;
    }
    const bool has_exited = element.state == "COMPLETED" || element.state == "FAILED";
    if (is_within(id, has_exited && unreadable.empty() ? kPatienceAfterExit : kPatience)) return;
    lose(job, number, element.state, trial, unreadable);
  }

  /// Nothing more will come from this element.
  void drop(ArrayJob& job, int number) {
    gone_since_.erase(job.elements.at(number));
    job.elements.erase(number);
    keep(job);
  }

  void wait_again(Trial& trial) {
    trial.result = TrialResult();
    trial.result.status = TrialStatus::waiting;
    metrics_.erase(trial.planned.id);
    state_.reset(trial.planned.id);
  }

  void lose(ArrayJob& job, int number, const std::string& state, Trial& trial,
            const std::string& unreadable) {
    line_.erase();
    if (unreadable.empty()) {
      const fs::path its_log = job.log_of(number);  // there if it ever ran
      log::warning(short_name(trial, run_.same) + ": element " + std::to_string(number) + " of job " +
                   job.number + " ended without a result" + (state.empty() ? "" : " (" + state + ")") +
                   ": the trial is to run again" +
                   (fs::exists(its_log) ? "; the element's log is " + its_log.string() : ""));
    } else {
      set_unreadable_aside(run_.folder, trial, unreadable);
    }
    wait_again(trial);
    drop(job, number);
    ++lost_;
  }

  /// Waits a while, or until a signal asks to end.
  std::optional<int> wait() { return signals_.wait(kLookAtSlurmEvery); }

  void show() {
    if (!line_.is_wanted()) return;
    std::string text = std::to_string(count_ended(trials_)) + "/" + count_text(trials_.size(), "trial") +
                       " | " + std::to_string(running_) + " running | " + std::to_string(pending_) +
                       " queued";
    if (pending_ > 0 && !reason_.empty() && reason_ != "None") text += " (" + reason_ + ")";
    if (const auto left = seconds_left(trials_, run_.settings); left && running_ > 0)
      text += time_left_text(*left / static_cast<double>(running_));
    std::vector<RunningText> running;
    for (const Trial& trial : trials_) {
      if (trial.result.status != TrialStatus::running) continue;
      const auto file = metrics_of(folder_of_trial(run_.folder, trial.planned.id));
      MetricsFile& metrics = metrics_.try_emplace(trial.planned.id, file, by_.metric).first->second;
      metrics.read_on();
      running.push_back(running_text(trial, metrics, by_.metric, run_.same));
    }
    line_.show(line_within(line_.columns(), text, running));
  }

  const SweepRun& run_;
  const Yardstick by_;
  SweepState& state_;
  Signals& signals_;
  std::vector<ArrayJob> jobs_;
  std::vector<Trial> trials_;
  std::map<std::string, std::size_t> places_;  // index of each trial by its id
  std::map<std::string, Clock::time_point> gone_since_;
  std::size_t pending_ = 0, running_ = 0, lost_ = 0;
  int failures_ = 0;    // consecutive ones, when asking Slurm
  std::string reason_;  // why Slurm has not started the last queued element
  bool waits_for_files_ = false;
  std::map<std::string, MetricsFile> metrics_;  // of running trials by their ids, if there is a progress line
  ProgressLine line_;
};

}  // namespace

NextTrials next_trials(const std::vector<Trial>& trials, const std::set<std::string>& busy,
                       const std::optional<std::int64_t>& budget_trials) {
  NextTrials next;
  std::size_t begun = 0;
  for (const Trial& trial : trials)
    begun += has_ended(trial.result.status) || busy.contains(trial.planned.id);
  for (const Trial& trial : trials) {
    if (has_ended(trial.result.status) || busy.contains(trial.planned.id)) continue;
    if (budget_trials && static_cast<std::int64_t>(begun) >= *budget_trials) {
      next.budget = begun;
      break;
    }
    next.ids.push_back(trial.planned.id);
    ++begun;
  }
  return next;
}

TrialsInJobs trials_in_jobs(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals) {
  ArraySweep sweep(run, plan, state, signals);
  const auto signal = sweep.settle();
  return {sweep.in_jobs(), signal};
}

ArrayEnd run_array(const SweepRun& run, const ArrayRequest& request, const SweepPlan& plan, SweepState& state,
                   Signals& signals, bool follows) {
  ArraySweep sweep(run, plan, state, signals);
  if (const auto signal = sweep.settle()) return {{sweep.has_failed(), signal}, true};
  try {
    sweep.submit(request);
  } catch (const Interrupted& by) {
    log::warning("sbatch was interrupted, and Slurm may have taken the job: " + run.same_command() +
                 " finds out, and continues from there");
    return {{sweep.has_failed(), by.signal}, true};
  }
  if (follows) return {sweep.follow(), false};
  sweep.report_what_continues();
  return {{sweep.has_failed(), std::nullopt}, !sweep.in_jobs().empty()};
}

}  // namespace hookline
