#include "launcher/report/sweep_results.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "config/run_files.h"
#include "launcher/supervise/run_folder.h"
#include "launcher/supervise/tail.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMostPoints = 200'000;  // of all curves together
constexpr std::size_t kMostPointsOfOne = 500, kLeastPointsOfOne = 20;
constexpr std::size_t kTailLines = 30, kTailLineBytes = 400;
constexpr std::streamoff kTailBytes = 1 << 16;  // of a file that may hold gigabytes
constexpr std::streamoff kMostConfigBytes = 1 << 18;

/// The last `most` bytes of a file; empty if it is not there.
std::string end_of(const fs::path& file, std::streamoff most) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - most));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string tail_of(const fs::path& file) {
  Tail tail(kTailLines, kTailLineBytes);
  tail.feed(end_of(file, kTailBytes));
  std::string text;
  for (const std::string& line : tail.lines()) text += line + "\n";
  return text;
}

/// Of the attempts of a run the last.
fs::path last_attempt(const fs::path& run) {
  fs::path last;
  std::error_code error;
  for (int number = 0;; ++number) {
    const fs::path attempt = run / attempt_name(number);
    if (!fs::is_directory(attempt, error)) return last;
    last = attempt;
  }
}

std::string logs_of(const fs::path& trial, const fs::path& run) {
  std::string text = tail_of(trial / "output.log");
  const fs::path rank = last_attempt(run) / "0";
  for (const char* stream : {"stdout.log", "stderr.log"}) {
    const std::string said = tail_of(rank / stream);
    if (!said.empty()) text += std::string("-- rank 0, ") + stream + "\n" + said;
  }
  return text;
}

}  // namespace

SweepResults read_sweep_results(const fs::path& folder) {
  SweepRecord record = SweepRecord::read(folder);
  SweepResults results;
  results.rows = rows_of(record.trials, record.facts.goal == "min");
  std::map<Assignments, std::size_t> row_of;
  for (std::size_t row = 0; row < results.rows.size(); ++row) {
    row_of[results.rows[row].values] = row;
    results.labels.push_back(label_of(results.rows[row].values, record.facts.same));
  }
  const std::size_t points = std::clamp(kMostPoints / std::max<std::size_t>(1, record.trials.size()),
                                        kLeastPointsOfOne, kMostPointsOfOne);
  for (Trial& trial : record.trials) {
    const fs::path own = folder / "trials" / trial.planned.id, run = own / "runs" / "latest";
    TrialResults of_trial;
    of_trial.row = row_of.at(without_seed(trial.planned.values));
    if (trial.result.status != TrialStatus::waiting) {
      of_trial.series = read_series(run / kMetricsFile, points);
      of_trial.config = end_of(own / "config.toml", kMostConfigBytes);
      of_trial.log = logs_of(own, run);
    }
    of_trial.trial = std::move(trial);
    results.trials.push_back(std::move(of_trial));
  }
  results.facts = std::move(record.facts);
  return results;
}

}  // namespace hookline
