#include "launcher/report/sweep_results.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/text/time_text.h"
#include "checkpoint/folder_lock.h"
#include "config/run_files.h"
#include "launcher/output/tail.h"
#include "launcher/rank/run_folder.h"
#include "launcher/report/row_names.h"
#include "launcher/sweep/array_job.h"
#include "launcher/sweep/metrics_file.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMostPoints = 200'000;  // of one metric, over all its curves
constexpr std::size_t kMostPointsOfOne = 500, kLeastPointsOfOne = 20;
constexpr std::size_t kTailLines = 30, kTailLineBytes = 400;
constexpr std::uint64_t kTailBytes = 1 << 16;  // of a file that may be gigabytes long
constexpr std::uint64_t kMostConfigBytes = 1 << 18;

/// Files of trials that exist and can't be read.
class UnreadFiles {
 public:
  void look_at(const fs::path& file) {
    const std::string why = unread_text(InputFile(file), file);
    if (!why.empty() && count_++ == 0) first_ = why;
  }

  void warn() const {
    if (count_ == 0) return;
    log::warning("the report lacks what could not be read of the trials: " +
                 (count_ == 1 ? "" : std::to_string(count_) + " files, the first: ") + first_);
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
};

/// The last `most` bytes of a file; empty if it is not there.
std::string end_of(const fs::path& file, std::uint64_t most) {
  InputFile in(file);
  if (!in) return "";
  in.seekg(static_cast<std::streamoff>(in.bytes() - std::min(in.bytes(), most)));
  std::string text(most, '\0');
  in.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::string tail_of(const fs::path& file) {
  Tail tail(kTailLines, kTailLineBytes);
  const std::string end = end_of(file, kTailBytes);
  for (const std::string_view line : lines_of(end)) tail.add(line);
  std::string text;
  for (const std::string& line : tail.lines()) text += line + "\n";
  return text;
}

/// The folder of a run's last attempt.
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
  const fs::path attempt = last_attempt(run);
  if (attempt.empty()) return text;
  const fs::path rank = attempt / "0";
  for (const char* stream : {"stdout.log", "stderr.log"}) {
    const std::string said = tail_of(rank / stream);
    if (!said.empty()) text += std::string("-- rank 0, ") + stream + "\n" + said;
  }
  return text;
}

/// The row's values that not all rows have, except for the name of its sweep.
Assignments own_values(const ResultRow& row, const Assignments& same) {
  Assignments own = row.values;
  own.erase(kSweepColumn);
  std::erase_if(own, [&](const auto& value) {
    const auto alike = same.find(value.first);
    return alike != same.end() && alike->second == value.second;
  });
  return own;
}

/// Names the rows, and assigns each trial to its row.
void label(SweepResults& results) {
  const Assignments& same = results.facts.same;
  std::map<Assignments, std::size_t> row_of;
  std::set<Assignments> all_own;
  for (const ResultRow& row : results.rows) all_own.insert(own_values(row, same));
  const auto names = row_names(all_own);
  for (std::size_t row = 0; row < results.rows.size(); ++row) {
    const Assignments& values = results.rows[row].values;
    row_of[values] = row;
    results.labels.push_back(label_of(values, same));
    results.own_names.push_back(names.at(own_values(results.rows[row], same)));
    const auto sweep = values.find(kSweepColumn);
    results.names.push_back((sweep == values.end() ? "" : sweep->second + ": ") + results.own_names.back());
  }
  for (TrialResults& each : results.trials) each.row = row_of.at(without_seed(each.trial.planned.values));
}

/// The trials that Slurm jobs have: locks on their nodes may not be visible here. Nothing if that can't be
/// read.
std::optional<std::set<std::string>> trials_of_jobs(const fs::path& folder) {
  try {
    std::set<std::string> ids;
    for (const ArrayJob& job : kept_jobs(folder))
      for (const auto& [element, id] : job.elements) ids.insert(id);
    return ids;
  } catch (const Error&) {  // the sweep itself reports it
    return std::nullopt;
  }
}

SweepResults read_one(const fs::path& folder, std::size_t most_points) {
  SweepRecord record = SweepRecord::read(folder);
  SweepResults results;
  results.rows = rows_of(record.trials, record.facts.goal == "min");
  if (const std::string remark = speedup_remark(results.rows); !remark.empty())
    results.remarks.push_back(remark);
  const std::size_t points = std::clamp(most_points / std::max<std::size_t>(1, record.trials.size()),
                                        kLeastPointsOfOne, kMostPointsOfOne);
  const auto of_jobs = trials_of_jobs(folder);
  UnreadFiles unread;
  for (Trial& trial : record.trials) {
    const fs::path own = folder / "trials" / trial.planned.id, run = own / "runs" / "latest";
    TrialResults of_trial;
    if (trial.result.status != TrialStatus::waiting) {
      std::string loss;
      of_trial.series = read_series(run / kMetricsFile, points, loss);
      if (!loss.empty()) log::warning(loss);
      for (const fs::path& file : {run / kMetricsFile, own / "config.toml", own / "output.log"})
        unread.look_at(file);
      of_trial.config = end_of(own / "config.toml", kMostConfigBytes);
      of_trial.log = logs_of(own, run);
    }
    of_trial.is_interrupted = trial.result.status == TrialStatus::running && of_jobs &&
                              !of_jobs->contains(trial.planned.id) && !is_locked(own) && !is_locked(folder);
    of_trial.trial = std::move(trial);
    results.trials.push_back(std::move(of_trial));
  }
  unread.warn();
  results.facts = std::move(record.facts);
  results.facts.began = time_text(results.facts.began);
  return results;
}

/// Adds the line `other`, unless `all` has it already.
std::string together(std::string all, const std::string& other) {
  const std::vector<std::string_view> lines = lines_of(all);
  return std::find(lines.begin(), lines.end(), other) == lines.end() ? all + "\n" + other : all;
}

void mark(SweepResults& results, const std::string& sweep) {
  for (ResultRow& row : results.rows) {
    row.values.emplace(kSweepColumn, sweep);
    if (!row.best_id.empty()) row.best_id = sweep + "/" + row.best_id;
  }
  for (std::string& remark : results.remarks) remark = sweep + ": " + remark;
  for (TrialResults& each : results.trials) {
    each.trial.planned.values.emplace(kSweepColumn, sweep);
    each.trial.planned.id = sweep + "/" + each.trial.planned.id;
  }
}

std::string compared_by(const SweepFacts& facts) {
  return facts.metric.empty() ? "no metric"
                              : "the " + facts.metric_value + " '" + facts.metric + "' (" + facts.goal + ")";
}

void add(SweepResults& all, SweepResults&& other) {
  SweepFacts& facts = all.facts;
  facts.name += ", " + other.facts.name;
  facts.command = together(facts.command, other.facts.command);
  facts.machine = together(facts.machine, other.facts.machine);
  facts.began = together(facts.began, other.facts.began);
  std::erase_if(facts.same, [&](const auto& value) {
    const auto found = other.facts.same.find(value.first);
    return found == other.facts.same.end() || found->second != value.second;
  });
  std::move(other.rows.begin(), other.rows.end(), std::back_inserter(all.rows));
  std::move(other.trials.begin(), other.trials.end(), std::back_inserter(all.trials));
  std::move(other.remarks.begin(), other.remarks.end(), std::back_inserter(all.remarks));
}

}  // namespace

SweepResults read_sweep_results(const std::vector<fs::path>& folders) {
  SweepResults all;
  if (folders.size() == 1) {
    all = read_one(folders[0], kMostPoints);
    label(all);
    return all;
  }
  std::vector<std::string> names;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    const fs::path whole = fs::weakly_canonical(folder);
    if (!seen.insert(whole).second) throw Error("'" + folder.string() + "' is given twice");
    names.push_back(whole.filename());
  }
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const bool is_alone = std::count(names.begin(), names.end(), names[i]) == 1;
    SweepResults one = read_one(folders[i], kMostPoints / folders.size());
    one.facts.name = is_alone ? names[i] : (folders[i] / "").parent_path().string();
    mark(one, one.facts.name);
    if (i == 0) {
      all = std::move(one);
      continue;
    }
    if (compared_by(one.facts) != compared_by(all.facts))
      throw Error("'" + folders[0].string() + "' compares trials by " + compared_by(all.facts) + ", and '" +
                  folders[i].string() + "' by " + compared_by(one.facts) +
                  ": a page needs sweeps with the same metric, goal and metric_value");
    add(all, std::move(one));
  }
  sort_rows(all.rows, all.facts.goal == "min");
  label(all);
  return all;
}

}  // namespace hookline
