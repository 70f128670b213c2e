#include "launcher/schedulers/slurm_job.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "base/lines.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kLookAtSlurmEvery{1000};
constexpr int kMostFailures = 60;  // consecutive ones, while the controller does not answer

/// The value of KEY=VALUE in what scontrol prints of a job or a node; empty if there is none.
std::string field(const std::string& text, const std::string& key) {
  const auto begin = text.find(" " + key + "=");
  if (begin == text.npos) return "";
  const auto from = begin + key.size() + 2;
  return text.substr(from, text.find_first_of(" \n", from) - from);
}

/// What scontrol prints about a job. No answer in time counts as a failure, so that the caller asks again.
CommandOutput asked_of(const std::string& job, Signals& signals) {
  try {
    return answer_of({"scontrol", "-o", "show", "job", job}, signals);
  } catch (const SlurmError& error) {
    return {error.what(), 1};
  }
}

/// Did sbatch end without knowing whether the controller took the job?
bool is_unclear(int code, const std::string& text) {
  constexpr int kFirstOfSignals = 128;
  if (code >= kFirstOfSignals) return true;
  for (const char* each : {"timed out", "Zero Bytes were transmitted", "communication failure"})
    if (text.find(each) != text.npos) return true;
  return false;
}

CommandOutput answer_of_sbatch(const std::filesystem::path& script, Signals& signals) {
  try {
    // Drop variables that sbatch reads: they would change the elements, choose another cluster, or wait for
    // the job's end.
    return answer_of({"env", "-u", "SBATCH_ARRAY_INX", "-u", "SBATCH_CLUSTERS", "-u", "SBATCH_WAIT", "sbatch",
                      "--parsable", script.string()},
                     signals);
  } catch (const SlurmError& error) {  // sbatch was given up
    throw LostAnswer("sbatch has not said whether it took '" + script.string() + "': " + error.what());
  }
}

/// The number in `text`; 0 if there is none, and then the job's state says how it ended.
int code_in(std::string_view text) {
  int code = 0;
  std::from_chars(text.data(), text.data() + text.size(), code);
  return code;
}

}  // namespace

std::string node_address(const std::string& name, Signals& signals) {
  return field(answer_of({"scontrol", "-o", "show", "node", name}, signals).text, "NodeAddr");
}

std::string submit_job(const std::filesystem::path& script, Signals& signals) {
  const auto [text, code] = answer_of_sbatch(script, signals);
  if (code == 127)
    throw NoSlurm("there is no 'sbatch' on this machine: submit '" + script.string() +
                  "' from a machine of the cluster");
  if (code != 0 && is_unclear(code, text))
    throw LostAnswer("sbatch has not said whether it took '" + script.string() + "': " + text);
  if (code != 0) throw SlurmError("sbatch refused '" + script.string() + "': " + text);
  // Warnings may come before the number, and a cluster's name after it.
  const std::string line = last_line(text);
  const std::string number = line.substr(0, line.find(';'));
  if (number.empty() || number.find_first_not_of("0123456789") != number.npos)
    throw SlurmError("sbatch printed no job number for '" + script.string() + "': " + text);
  return number;
}

bool is_over(std::string_view state) {
  const auto& ends = {"COMPLETED", "FAILED",    "CANCELLED", "TIMEOUT",       "NODE_FAIL",
                      "PREEMPTED", "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY", "REVOKED"};
  return std::find(ends.begin(), ends.end(), state) != ends.end();
}

int follow_job(const std::string& job, const std::filesystem::path& log, Signals& signals) {
  std::streamoff shown = 0;
  const auto show = [&] {
    InputFile stream(log);
    stream.seekg(shown);
    char block[4096];
    while (stream.read(block, sizeof block), stream.gcount() > 0) {
      show_text({block, static_cast<std::size_t>(stream.gcount())}, signals);
      shown += stream.gcount();
    }
  };
  for (int failures = 0;;) {
    const auto [text, code] = asked_of(job, signals);
    show();
    failures = code == 0 ? 0 : failures + 1;
    if (failures == kMostFailures || text.find("Invalid job id") != text.npos)
      throw SlurmError("the job " + job + " can't be followed any more: " + text);
    const std::string state = field(text, "JobState");
    if (code == 0 && is_over(state)) {
      show();
      // "3:0": its exit code, and the signal that ended it
      const std::string ended = field(text, "ExitCode");
      const std::size_t colon = std::min(ended.find(':'), ended.size());
      const int exited = code_in(std::string_view(ended).substr(0, colon));
      const int signal = code_in(std::string_view(ended).substr(std::min(colon + 1, ended.size())));
      if (signal != 0) return 128 + signal;
      return exited != 0 || state == "COMPLETED" ? exited : 1;
    }
    if (const auto signal = signals.wait(kLookAtSlurmEvery)) throw Interrupted{*signal};
  }
}

}  // namespace hookline
