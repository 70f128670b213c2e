#include "launcher/sweep/run_sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "config/run_files.h"
#include "hooks/error.h"
#include "hooks/log.h"
#include "launcher/cli/exit_code.h"
#include "launcher/supervise/child.h"
#include "launcher/supervise/duration_text.h"
#include "launcher/supervise/environment.h"
#include "launcher/supervise/file_descriptor.h"
#include "launcher/supervise/outcome.h"
#include "launcher/supervise/status_line.h"
#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/stopping.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kLookEvery{200};
constexpr Seconds kMoreGrace{5};  // than the trial's own, beyond which one that was told to end is killed
constexpr Seconds kFolderPatience{10};  // for what a trial that was killed still writes
constexpr std::size_t kLongestReason = 400;
constexpr const char* kNoStopping = "none";

/// One trial that runs.
struct Running {
  std::size_t index = 0;  // among the trials
  std::size_t place = 0;
  pid_t pid = 0;
  FileDescriptor end;  // readable once it has ended
  Clock::time_point start;
  MetricsFile metrics;
  std::optional<TrialStatus> ended_as;  // it was told to end, since it is that
  std::string reason;
  std::optional<Clock::time_point> killed_at;
  std::int64_t rung = 0;  // the last at which it was compared with others
};

/// Variables that would put values over the trial's config once more.
bool is_of_config(const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('='));
  return name.starts_with("HOOKLINE_") && (name.find("__") != name.npos || name == "HOOKLINE_PROFILE");
}

/// The last error that the launcher wrote, in one line; empty if it wrote none.
std::string last_error_in(const fs::path& log) {
  constexpr std::string_view kError = "hookline: error: ";
  std::ifstream in(log, std::ios::binary);
  std::string found;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(kError)) found = line.substr(kError.size());
  if (found.size() > kLongestReason) found = found.substr(0, kLongestReason) + " …";
  return found;
}

class Sweep {
 public:
  Sweep(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals)
      : run_(run),
        state_(state),
        signals_(signals),
        trials_(state.trials()),
        places_(static_cast<std::size_t>(places_of(run)), false) {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      Trial& trial = trials_[i];
      trial.planned = plan.trials.at(i);
      TrialResult& result = trial.result;
      if (result.status == TrialStatus::waiting) continue;
      seconds_used_ += result.seconds;
      const bool is_other = result.judged_by != judged_by();
      if (is_other || run_.settings.early_stopping != kNoStopping) {
        MetricsFile metrics(metrics_of(trial.planned.id), run_.settings.metric);
        metrics.finish();
        if (is_other && result.ran_well) {  // the sweep has another metric than it had
          judge(metrics, result);
          state_.end(trial.planned.id, result);
        }
        if (result.status == TrialStatus::done) histories_.push_back(metrics.points());
      }
    }
  }

  ~Sweep() {
    erase();
    for (const Running& each : running_) {
      kill(each.pid, SIGKILL);
      waitpid(each.pid, nullptr, 0);
    }
  }

  int run() {
    while (true) {
      start_what_fits();
      if (running_.empty()) break;
      if (const auto signal = wait()) {
        stop_all(*signal);
        return 128 + *signal;
      }
      look();
      show();
    }
    erase();
    return has_failed() ? kFailure : kSuccess;
  }

 private:
  fs::path folder_of(const std::string& id) const { return run_.folder / "trials" / id; }
  fs::path run_of(const std::string& id) const { return folder_of(id) / "runs" / "latest"; }
  fs::path metrics_of(const std::string& id) const { return run_of(id) / kMetricsFile; }
  bool smaller_is_better() const { return run_.settings.goal == "min"; }

  bool has_failed() const {
    return std::any_of(trials_.begin(), trials_.end(),
                       [](const Trial& trial) { return trial.result.status == TrialStatus::failed; });
  }

  std::size_t ended() const {
    return static_cast<std::size_t>(std::count_if(trials_.begin(), trials_.end(), [](const Trial& trial) {
      return trial.result.status != TrialStatus::waiting && trial.result.status != TrialStatus::running;
    }));
  }

  /// Why no further trial begins; empty if one may.
  std::string obstacle() const {
    const SweepSettings& settings = run_.settings;
    const std::size_t begun = ended() + running_.size();
    if (settings.budget_trials && static_cast<std::int64_t>(begun) >= *settings.budget_trials)
      return "budget_trials is used up: " + std::to_string(begun) + " trials";
    if (settings.budget && seconds_used_ >= *settings.budget)
      return "budget_seconds is used up: trials have run for " + seconds_text(Seconds(seconds_used_));
    if (settings.failed == "stop" && has_failed()) return "a trial has failed, and failed = \"stop\"";
    return "";
  }

  void start_what_fits() {
    while (true) {
      const auto place = std::find(places_.begin(), places_.end(), false);
      while (next_ < trials_.size() && trials_[next_].result.status != TrialStatus::waiting) ++next_;
      if (place == places_.end() || next_ == trials_.size()) return;
      if (const std::string why = obstacle(); !why.empty()) {
        if (!told_obstacle_) tell("no further trial is begun: " + why);
        told_obstacle_ = true;
        return;
      }
      start(next_, static_cast<std::size_t>(place - places_.begin()));
    }
  }

  /// What a trial that was interrupted has left goes.
  void make_folder(const std::string& id) {
    const fs::path folder = folder_of(id);
    std::error_code error;
    const auto patience = Clock::now() + kFolderPatience;
    while (fs::exists(folder, error) && Clock::now() < patience) {
      fs::remove_all(folder, error);
      if (error) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!error) fs::create_directories(folder, error);
    if (error) throw Error("the trial's folder '" + folder.string() + "' can't be made: " + error.message());
  }

  FileDescriptor open_log(const fs::path& file) const {
    FileDescriptor log(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!log.is_open()) throw Error("'" + file.string() + "' can't be written: " + std::strerror(errno));
    return log;
  }

  /// The part of the machine that a trial at `place` has for itself.
  void give_place(std::size_t place, ChildSpec& child) const {
    if (places_.size() < 2) return;
    const auto share = [&](std::size_t all) {
      const std::size_t each = all / places_.size();
      return std::pair(place * each, each);
    };
    const auto [first_core, cores] = share(run_.machine.cores.size());
    if (cores > 0)
      child.cores.assign(run_.machine.cores.begin() + static_cast<std::ptrdiff_t>(first_core),
                         run_.machine.cores.begin() + static_cast<std::ptrdiff_t>(first_core + cores));
    const auto [first_gpu, gpus] = share(static_cast<std::size_t>(run_.machine.gpus));
    if (!run_.uses_gpus || gpus == 0) return;
    std::string visible;
    for (std::size_t i = first_gpu; i < first_gpu + gpus; ++i)
      visible += (visible.empty() ? "" : ",") + gpu_name(i);
    std::erase_if(child.environment,
                  [](const std::string& each) { return each.starts_with("CUDA_VISIBLE_DEVICES="); });
    child.environment.push_back("CUDA_VISIBLE_DEVICES=" + visible);
  }

  /// Of the `index`-th GPU that this process sees.
  static std::string gpu_name(std::size_t index) {
    const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!variable) return std::to_string(index);
    std::string_view names = variable;
    for (; index > 0; --index) names.remove_prefix(std::min(names.size(), names.find(',') + 1));
    return std::string(names.substr(0, names.find(',')));
  }

  void start(std::size_t index, std::size_t place) {
    Trial& trial = trials_[index];
    const PlannedTrial& planned = trial.planned;
    make_folder(planned.id);
    const fs::path folder = folder_of(planned.id);
    const fs::path config = folder / "config.toml";
    {
      std::ofstream out(config, std::ios::binary);
      out << planned.cell.config << std::flush;
      if (!out) throw Error("'" + config.string() + "' can't be written: " + std::strerror(errno));
    }
    const FileDescriptor log = open_log(folder / "output.log");
    ChildSpec child;
    child.program = run_.hookline.string();
    child.arguments = {"hookline", "launch", "--config", config.string()};
    std::vector<std::string> settings = {"logging.dir=" + (folder / "runs").string(), "logging.show=none",
                                         "logging.status=off", "launch.nnodes=1"};
    for (const auto& [key, name] : planned.cell.own_folders)
      settings.push_back(key + "=" + (folder / name).string());
    for (const std::string& setting : settings)
      child.arguments.insert(child.arguments.end(), {"--set", setting});
    child.arguments.emplace_back("--");
    child.arguments.insert(child.arguments.end(), planned.program.begin(), planned.program.end());
    child.environment = own_environment();
    std::erase_if(child.environment, is_of_config);
    child.standard_output = child.standard_error = log.get();
    child.before_exec = [this] { signals_.restore(); };
    give_place(place, child);

    state_.begin(planned.id);
    trial.result.status = TrialStatus::running;
    Running running{index,
                    place,
                    0,
                    FileDescriptor(),
                    Clock::now(),
                    MetricsFile(metrics_of(planned.id), run_.settings.metric),
                    {},
                    "",
                    {},
                    0};
    try {
      running.pid = spawn(child);
    } catch (const SpawnError& error) {
      throw Error(error.what());
    }
    running.end = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, running.pid, 0)));
    places_[place] = true;
    running_.push_back(std::move(running));
  }

  /// Until something happens, or a while; a signal that asks to end.
  std::optional<int> wait() {
    std::vector<pollfd> descriptors;
    for (const int descriptor : signals_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    for (const Running& each : running_) descriptors.push_back({each.end.get(), POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), static_cast<int>(kLookEvery.count()));
    return signals_.asked_to_end(/*warning_too=*/false);
  }

  void look() {
    for (std::size_t i = 0; i < running_.size();) {
      Running& each = running_[i];
      int status = 0;
      if (waitpid(each.pid, &status, WNOHANG) == each.pid) {
        end(each, status);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      each.metrics.read_on();
      check_time(each);
      check_hope(each);
      ++i;
    }
  }

  Clock::duration grace_of(const Running& each) const {
    const Seconds own(trials_[each.index].planned.cell.grace_seconds);
    return std::chrono::duration_cast<Clock::duration>(own + kMoreGrace);
  }

  void tell_to_end(Running& each, TrialStatus as, const std::string& reason) {
    each.ended_as = as;
    each.reason = reason;
    each.killed_at = Clock::now() + grace_of(each);
    kill(each.pid, SIGTERM);
  }

  void check_time(Running& each) {
    const auto now = Clock::now();
    if (each.killed_at && now >= *each.killed_at) kill(each.pid, SIGKILL);
    if (each.ended_as || !run_.settings.trial_limit ||
        Seconds(now - each.start).count() < *run_.settings.trial_limit)
      return;
    tell_to_end(each, TrialStatus::failed,
                "it was not done after " + seconds_text(Seconds(*run_.settings.trial_limit)) +
                    " (trial_limit_seconds)");
  }

  void check_hope(Running& each) {
    const SweepSettings& settings = run_.settings;
    const History& own = each.metrics.points();
    if (each.ended_as || own.empty() || settings.early_stopping == kNoStopping ||
        trials_[each.index].planned.is_baseline)
      return;
    if (!std::isfinite(own.back().value)) return tell_to_end(each, TrialStatus::failed, not_a_number(own));
    const bool by_median = settings.early_stopping == "median";
    const std::int64_t rung = rung_at(own.back().step, settings.early_stopping_from);
    if (!by_median && rung == each.rung) return;
    each.rung = rung;
    std::string why;
    if (by_median) {
      why = hopeless_by_median(own, histories_, smaller_is_better(), settings.early_stopping_from);
    } else {
      std::vector<History> others = histories_;
      for (const Running& other : running_)
        if (&other != &each) others.push_back(other.metrics.points());
      why = hopeless_by_halving(own, others, smaller_is_better(), settings.early_stopping_from);
    }
    if (!why.empty()) tell_to_end(each, TrialStatus::stopped, why);
  }

  std::string not_a_number(const History& points) const {
    return "its '" + run_.settings.metric + "' is not a number at step " + std::to_string(points.back().step);
  }

  /// What a trial that ran well has come to, by what it has logged.
  void judge(const MetricsFile& metrics, TrialResult& result) const {
    const std::string& name = run_.settings.metric;
    const History& points = metrics.points();
    result.judged_by = judged_by();
    result.status = TrialStatus::done;
    result.metric.reset();
    result.reason.clear();
    if (name.empty()) return;
    if (points.empty()) {
      std::string names;
      for (const std::string& each : metrics.names()) names += (names.empty() ? "" : ", ") + each;
      result.status = TrialStatus::failed;
      result.reason =
          "it never logged '" + name + "'; " + (names.empty() ? "it logged no metric" : "it logged " + names);
    } else if (!std::isfinite(points.back().value)) {
      result.status = TrialStatus::failed;
      result.reason = not_a_number(points);
    } else {
      result.metric = value_of(points);
    }
  }

  /// What trials are judged by, which a changed sweep file may change.
  std::string judged_by() const {
    const SweepSettings& settings = run_.settings;
    return settings.metric_value == "last" ? settings.metric : settings.metric + ", best " + settings.goal;
  }

  double value_of(const History& points) const {
    if (run_.settings.metric_value == "last") return points.back().value;
    double best = points.back().value;
    for (const MetricPoint& point : points) {
      if (std::isfinite(point.value) && is_better(point.value, best, smaller_is_better())) best = point.value;
    }
    return best;
  }

  TrialResult result_of(Running& each, int status) {
    const PlannedTrial& planned = trials_[each.index].planned;
    each.metrics = MetricsFile(metrics_of(planned.id),
                               run_.settings.metric);  // from its start: it may have been written anew
    each.metrics.finish();
    TrialResult result;
    result.seconds = Seconds(Clock::now() - each.start).count();
    result.step = each.metrics.step();
    std::ifstream summary(run_of(planned.id) / kRunSummary, std::ios::binary);
    if (summary) {
      const auto measures = nlohmann::json::parse(summary, nullptr, /*allow_exceptions=*/false);
      if (measures.is_object()) result.measures = measures.dump();
    }
    const Outcome outcome = outcome_of(status);
    result.judged_by = judged_by();
    if (each.ended_as) {
      result.status = *each.ended_as;
      result.reason = each.reason;
    } else if (outcome == Outcome(Exited{0})) {
      result.ran_well = true;
      judge(each.metrics, result);
    } else {
      result.status = TrialStatus::failed;
      const std::string error = last_error_in(folder_of(planned.id) / "output.log");
      result.reason = error.empty() ? "it " + describe(outcome) : error;
    }
    return result;
  }

  void end(Running& each, int status) {
    Trial& trial = trials_[each.index];
    trial.result = result_of(each, status);
    state_.end(trial.planned.id, trial.result);
    seconds_used_ += trial.result.seconds;
    if (run_.settings.early_stopping != kNoStopping && trial.result.status == TrialStatus::done)
      histories_.push_back(each.metrics.points());
    places_[each.place] = false;
    tell(line_of(trial));
  }

  std::string label(const Trial& trial) const {
    const std::string text = label_of(trial.planned.values, run_.same);
    return text.empty() ? trial.planned.id : text;
  }

  std::string line_of(const Trial& trial) const {
    const TrialResult& result = trial.result;
    std::string line =
        "[" + std::to_string(ended()) + "/" + std::to_string(trials_.size()) + "] " + label(trial) + ": ";
    if (result.status == TrialStatus::done) {
      if (result.metric) {
        char text[64];
        std::snprintf(text, sizeof text, "%.6g", *result.metric);
        line += run_.settings.metric + " " + text + ", ";
      }
      return line + seconds_text(Seconds(result.seconds));
    }
    return line + name_of(result.status) + " after " + seconds_text(Seconds(result.seconds)) + ": " +
           result.reason;
  }

  void reset(Trial& trial) {
    trial.result = TrialResult();
    trial.result.status = TrialStatus::waiting;
    state_.reset(trial.planned.id);
  }

  void stop_all(int signal) {
    erase();
    log::info("stopping " + std::to_string(running_.size()) + (running_.size() == 1 ? " trial" : " trials"));
    for (const Running& each : running_) kill(each.pid, signal);
    for (Running& each : running_) each.killed_at = Clock::now() + grace_of(each);
    while (!running_.empty()) {
      const bool is_asked_again = wait().has_value();
      for (std::size_t i = 0; i < running_.size();) {
        Running& each = running_[i];
        if (is_asked_again || Clock::now() > *each.killed_at) kill(each.pid, SIGKILL);
        int status = 0;
        if (waitpid(each.pid, &status, WNOHANG) != each.pid) {
          ++i;
          continue;
        }
        // What was done before the signal came is done.
        if (each.ended_as || outcome_of(status) == Outcome(Exited{0}))
          end(each, status);
        else
          reset(trials_[each.index]);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    log::info("stopped with " + std::to_string(ended()) + " of " + std::to_string(trials_.size()) +
              " trials done; the same command goes on from there");
  }

  void tell(const std::string& line) {
    erase();
    log::info(line);
  }

  /// What is left, if trials go on taking as long as they did.
  std::string time_left() const {
    const std::size_t done = ended();
    if (done == 0) return "";
    double left = seconds_used_ / static_cast<double>(done) * static_cast<double>(trials_.size() - done);
    for (const Running& each : running_) left -= Seconds(Clock::now() - each.start).count();
    return ", about " + seconds_text(Seconds(std::max(0.0, left) / static_cast<double>(places_.size()))) +
           " left";
  }

  void show() {
    if (!run_.is_terminal) return;
    winsize size{};
    const int columns = ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    std::string text =
        std::to_string(ended()) + "/" + std::to_string(trials_.size()) + " trials" + time_left();
    for (const Running& each : running_) {
      text += " | " + label(trials_[each.index]);
      if (const auto step = each.metrics.step()) text += " step " + std::to_string(*step);
      if (!each.metrics.points().empty()) {
        char value[64];
        std::snprintf(value, sizeof value, " %s %.4g", run_.settings.metric.c_str(),
                      each.metrics.points().back().value);
        text += value;
      }
    }
    std::fprintf(stderr, "\r\x1b[K%s", cut_to_columns(text, columns - 1, " | ").c_str());
    shown_ = true;
  }

  void erase() {
    if (std::exchange(shown_, false)) std::fprintf(stderr, "\r\x1b[K");
  }

  const SweepRun& run_;
  SweepState& state_;
  Signals& signals_;
  std::vector<Trial> trials_;
  std::vector<bool> places_;  // taken
  std::vector<Running> running_;
  std::vector<History> histories_;  // of the trials that are done, if any may be stopped early
  std::size_t next_ = 0;
  double seconds_used_ = 0;
  bool told_obstacle_ = false, shown_ = false;
};

}  // namespace

std::int64_t places_of(const SweepRun& run) {
  if (run.settings.max_parallel) return *run.settings.max_parallel;
  const auto all = run.uses_gpus ? static_cast<std::int64_t>(run.machine.gpus)
                                 : static_cast<std::int64_t>(run.machine.cores.size());
  return std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, run.most_ranks));
}

int run_sweep(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals) {
  return Sweep(run, plan, state, signals).run();
}

}  // namespace hookline
