#include "launcher/launch/end_tracked_run.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <system_error>

#include "base/log.h"
#include "base/text/duration_text.h"
#include "config/run_files.h"
#include "launcher/launch/libexec.h"
#include "launcher/process/child.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/outcome.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/running_command.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};
constexpr int kNotReported = 1;  // end_mlflow_run's exit code if it has printed why, and what to do

/// Is it a signal by which a defect in the program itself ends it?
bool is_of_a_crash(int signal) {
  switch (signal) {
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGSEGV:
    case SIGSYS:
    case SIGTRAP:
      return true;
    default:
      return false;
  }
}

/// MLflow's address as the ranks got it: the config comes before the variable.
std::vector<std::string> environment_for(const LoggingConfig& logging) {
  if (logging.mlflow_tracking_uri.empty()) return own_environment();
  return own_environment_with("MLFLOW_TRACKING_URI", logging.mlflow_tracking_uri);
}

/// What came of reporting to the server.
struct EndReport {
  std::string problem;           // what went wrong; empty if nothing did
  bool says_what_to_do = false;  // the problem names the run, the server and what to do
};

EndReport run_to_its_end(const ChildSpec& child, Signals& signals) {
  const auto end = Clock::now() + kPatience;
  RunningCommand running(child, signals);
  std::string said;
  while (true) {
    if (const std::optional<int> status = running.look(said)) {
      const Outcome outcome = outcome_of(*status);
      if (succeeded(outcome)) return {};
      if (outcome == Outcome(Exited{kNotReported}) && !said.empty()) return {said, true};
      return {"'" + child.program + "' " + describe(outcome) + (said.empty() ? "" : ": " + said)};
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return {"it has not answered within " + seconds_text(kPatience)};
    const auto signal = signals.wait(left, running.descriptors());
    // SIGTERM and SIGHUP may arrive again after they have ended the run: they do not cut this short.
    if (signal == SIGINT || signal == SIGQUIT) return {signal_name(*signal) + " arrived before it answered"};
  }
}

}  // namespace

std::string mlflow_status(int exit_code, bool keeps_checkpoints) {
  if (exit_code == kSuccess) return "FINISHED";
  if (exit_code == kSavedForLater && keeps_checkpoints) return "KILLED";
  const int signal = exit_code - 128;
  const bool is_signal = signal > 0 && signal < NSIG;
  return is_signal && !is_of_a_crash(signal) ? "KILLED" : "FAILED";
}

void end_tracked_run(const RunConfig& config, const std::filesystem::path& run_folder, int exit_code,
                     Signals& signals) {
  const auto& trackers = config.logging.trackers;
  if (std::find(trackers.begin(), trackers.end(), "mlflow") == trackers.end()) return;
  std::error_code error;
  if (!std::filesystem::exists(run_folder / kMlflowNote, error)) return;
  const std::string status = mlflow_status(exit_code, config.training.checkpoint_every_steps.has_value());
  ChildSpec child;
  child.program = libexec_program("end_mlflow_run").string();
  child.arguments = {child.program, run_folder.string(), status};
  child.environment = environment_for(config.logging);
  EndReport report;
  try {
    report = run_to_its_end(child, signals);
  } catch (const std::exception& failure) {
    report.problem = failure.what();
  }
  if (report.problem.empty()) return;
  log::warning(report.says_what_to_do ? report.problem
                                      : "could not report to MLflow that the run is " + status + ": " +
                                            report.problem + "; it may show the run as RUNNING forever. '" +
                                            (run_folder / kMlflowNote).string() + "' has the run's id");
}

}  // namespace hookline
