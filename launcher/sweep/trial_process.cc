#include "launcher/sweep/trial_process.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/lines.h"
#include "base/regular_file.h"
#include "base/text/duration_text.h"
#include "config/run_files.h"
#include "config/sources/sources.h"
#include "launcher/output/rank_stream.h"
#include "launcher/process/child.h"
#include "launcher/process/outcome.h"
#include "launcher/process/own_environment.h"
#include "launcher/rank/rank_environment.h"
#include "launcher/sweep/trial_files.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using Seconds = std::chrono::duration<double>;

constexpr Seconds kMoreGrace{5};  // added to the trial's own grace period before it is killed
constexpr std::uint64_t kLargestSummaryBytes = 16 << 20;
constexpr std::size_t kLongestLogLine = 1 << 20;   // for the launcher's last error
constexpr std::uint64_t kMostLogBytes = 16 << 20;  // at the end of the log
constexpr Seconds kFolderPatience{10};             // while a killed trial still writes

/// The last error that the launcher logged, on one line; empty if it logged none.
std::string last_error_in(const fs::path& log) {
  constexpr std::string_view kError = "hookline: error: ";
  InputFile in(log);
  // An error would be near the end; the trial may have made the file arbitrarily large.
  if (in.bytes() > kMostLogBytes) in.seekg(static_cast<std::streamoff>(in.bytes() - kMostLogBytes));
  std::string found;
  BoundedLines lines(kLongestLogLine);
  read_lines(
      in, lines,
      [&](const std::string& line, std::uint64_t) {
        if (line.starts_with(kError)) found = line.substr(kError.size());
      },
      kMostLogBytes);
  return shortened_reason(found);
}

/// The measures; nothing if there is no such file, since a program need not write one. Throws Error.
std::optional<std::string> measures_in(const fs::path& summary) {
  InputFile in(summary, kLargestSummaryBytes);
  const std::string text = in.read_all();
  if (in.problem() == FileProblem::missing) return std::nullopt;
  const std::string name = "'" + summary.string() + "' can't be read: ";
  if (in.problem() != FileProblem::none) throw Error(name + in.why());
  try {
    const auto measures = read_json<nlohmann::json>(text);
    if (!measures.is_object()) throw JsonError("it is no JSON object");
    // Text that a program has written may not be valid UTF-8.
    return measures.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } catch (const JsonError& problem) {
    throw Error(name + problem.what());
  }
}

ChildSpec launch_of(const fs::path& folder, const PlannedTrial& planned, const TrialPlace& place) {
  const fs::path config = folder / "config.toml";
  {
    const std::string problem = write_regular_file(config, planned.point.config);
    if (!problem.empty()) throw Error("'" + config.string() + "' can't be written: " + problem);
  }
  ChildSpec child;
  child.program = place.hookline.string();
  child.arguments = {"hookline", "launch", "--config", config.string()};
  std::vector<std::string> settings = {"logging.dir=" + (folder / "runs").string(), "logging.show=none",
                                       "logging.status=off", "launch.nnodes=1"};
  for (const auto& [key, name] : planned.point.own_folders)
    settings.push_back(key + "=" + (folder / name).string());
  for (const std::string& setting : settings)
    child.arguments.insert(child.arguments.end(), {"--set", setting});
  child.arguments.emplace_back("--");
  child.arguments.insert(child.arguments.end(), planned.program.begin(), planned.program.end());
  child.environment = own_environment();
  std::erase_if(child.environment, overrides_config);
  child.cores = place.cores;
  if (place.visible_gpus) {
    std::erase_if(child.environment,
                  [](const std::string& each) { return each.starts_with("CUDA_VISIBLE_DEVICES="); });
    child.environment.push_back("CUDA_VISIBLE_DEVICES=" + *place.visible_gpus);
  }
  return child;
}

}  // namespace

bool overrides_config(const std::string& variable) {
  const std::size_t end = variable.find('=');
  const std::string name = variable.substr(0, end);
  if (name == "HOOKLINE_PROFILE") return variable.size() > end + 1;  // an empty one names no profile
  return name.starts_with("HOOKLINE_") && (name.find("__") != name.npos || sets_keys(name));
}

TrialFolder::TrialFolder(fs::path path)
    : path_(std::move(path)), lock_(std::make_unique<FolderLock>(path_, "the trial's folder")) {}

void TrialFolder::clear(bool keeps_plan) const {
  const auto patience = TrialRun::Clock::now() + kFolderPatience;
  while (true) {
    std::error_code error;
    std::vector<fs::path> left;
    for (fs::directory_iterator each(path_, error), end; !error && each != end; each.increment(error)) {
      const fs::path name = each->path().filename();
      if (name != kFolderLockFile && !(keeps_plan && name == kPlanFile)) left.push_back(each->path());
    }
    for (const fs::path& each : left)
      if (!error) fs::remove_all(each, error);
    if (!error) return;
    if (TrialRun::Clock::now() >= patience)
      throw Error("the trial's folder '" + path_.string() + "' can't be emptied: " + error.message());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

fs::path run_of(const fs::path& folder) { return folder / "runs" / "latest"; }
fs::path metrics_of(const fs::path& folder) { return run_of(folder) / kMetricsFile; }

TrialRun::TrialRun(TrialFolder folder, TrialSpec spec, const TrialPlace& place, const Signals& signals)
    : folder_(std::move(folder)),
      spec_(std::move(spec)),
      metrics_(metrics_of(folder_.path()), spec_.by.metric) {
  ChildSpec child = launch_of(folder_.path(), spec_.planned, place);
  const FileDescriptor log = open_log(folder_.path() / "output.log");
  child.standard_output = child.standard_error = log.get();
  child.before_exec = [&signals] { signals.restore(); };
  start_ = Clock::now();
  try {
    pid_ = spawn(child);
  } catch (const SpawnError& error) {
    throw Error(error.what());
  }
  end_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

TrialRun::~TrialRun() {
  if (wait_status_) return;
  kill_now();
  waitpid(pid_, nullptr, 0);
}

bool TrialRun::look() {
  int status = 0;
  if (!wait_status_ && waitpid(pid_, &status, WNOHANG) == pid_) wait_status_ = status;
  if (wait_status_) return true;
  metrics_.read_on();
  const auto now = Clock::now();
  if (killed_at_ && now >= *killed_at_) kill_now();
  if (!killed_at_ && spec_.limit_seconds && Seconds(now - start_).count() >= *spec_.limit_seconds)
    tell_to_end(
        TrialStatus::failed,
        "it was not done after " + seconds_text(Seconds(*spec_.limit_seconds)) + " (trial_limit_seconds)",
        spec_.by.name());
  return false;
}

void TrialRun::tell_to_end(TrialStatus as, const std::string& reason, const std::string& judged_by) {
  ended_as_ = as;
  reason_ = reason;
  judged_by_ = judged_by;
  end_within_grace(SIGTERM);
}

void TrialRun::interrupt(int signal) { end_within_grace(signal); }

void TrialRun::end_within_grace(int signal) {
  const Seconds grace = Seconds(spec_.planned.point.grace_seconds) + kMoreGrace;
  killed_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace);
  kill(pid_, signal);
}

void TrialRun::suspend() {
  if (!wait_status_) kill(pid_, SIGTSTP);
}

void TrialRun::wait_until_suspended(Clock::time_point patience) const {
  // The trial's launcher stops last. If it got SIGCONT before it had stopped, it would stay stopped.
  while (!wait_status_ && Clock::now() < patience) {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT | WNOHANG) != 0 ||
        info.si_pid == pid_)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void TrialRun::resume(Clock::duration suspended) {
  if (wait_status_) return;
  kill(pid_, SIGCONT);
  start_ += suspended;
  if (killed_at_) *killed_at_ += suspended;
}

void TrialRun::kill_now() { kill(pid_, SIGKILL); }

bool TrialRun::was_signalled() const {
  constexpr int kFirstOfSignals = 128;  // exit codes above it mean a signal
  return !ended_as_ && exit_code(outcome_of(*wait_status_)) > kFirstOfSignals;
}

std::optional<TrialResult> TrialRun::result_if_done() {
  // A trial that was done before the signal came counts as done.
  if (!ended_as_ && outcome_of(*wait_status_) != Outcome(Exited{0})) return std::nullopt;
  return result();
}

TrialResult TrialRun::result() {
  // Read from the start, since the file may have been rewritten.
  metrics_ = MetricsFile(metrics_of(folder_.path()), spec_.by.metric);
  metrics_.finish();
  warnings_.clear();
  if (const std::string loss = metrics_.loss(); !loss.empty()) warnings_.push_back(loss);
  TrialResult result;
  result.seconds = Seconds(Clock::now() - start_).count();
  result.step = metrics_.step();
  try {
    if (const auto measures = measures_in(run_of(folder_.path()) / kRunSummary)) result.measures = *measures;
  } catch (const Error& problem) {
    warnings_.push_back(problem.what() + std::string(": the trial's measures are missing from the results"));
  }
  const Outcome outcome = outcome_of(*wait_status_);
  result.judged_by = spec_.by.name();
  if (ended_as_) {
    result.status = *ended_as_;
    result.reason = reason_;
    result.judged_by = judged_by_;
  } else if (outcome == Outcome(Exited{0})) {
    result.ran_well = true;
    judge(metrics_, spec_.by, result);
  } else {
    result.status = TrialStatus::failed;
    const std::string error = last_error_in(folder_.path() / "output.log");
    result.reason = error.empty() ? "it " + describe(outcome) : error;
  }
  return result;
}

}  // namespace hookline
