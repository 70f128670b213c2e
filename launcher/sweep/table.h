// What a sweep has found, as rows that are compared: pure functions of its trials.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/sweep/state.h"

namespace hookline {

/// The mean of what several trials have measured, and its spread: the sample's standard deviation, 0 for a
/// single trial.
struct Measured {
  double mean = 0, spread = 0;
};

/// A trial, for people: what tells it apart, or its id if nothing does.
std::string short_name(const Trial& trial, const Assignments& same);

/// "[3/12] lr=0.1: loss 0.31, 5 s": what is said of a trial as it ends.
std::string line_of(const Trial& trial, std::size_t ended, std::size_t all, const std::string& metric,
                    const Assignments& same);

/// What a trial that is done has measured, by name.
class Measures {
 public:
  explicit Measures(const TrialResult& result);
  std::optional<double> operator[](const char* name) const;

 private:
  std::map<std::string, double, std::less<>> values_;
};

/// The values without the seed: what trials that differ only in their seed or repeat have in common.
Assignments without_seed(Assignments values);

/// The trials that differ in their seed or repeat only.
struct ResultRow {
  Assignments values;  // without the seed
  bool is_baseline = false;
  std::size_t done = 0, failed = 0, stopped = 0, waiting = 0;
  std::optional<Measured> metric;
  std::optional<Measured> step_seconds;           // as the run has measured it
  std::optional<Measured> trial_seconds;          // from start to end
  std::optional<Measured> bytes_per_step;         // that a rank has sent
  std::optional<Measured> compression;            // bytes of the gradients over bytes sent
  std::optional<Measured> peak_memory_bytes;      // of a rank
  std::optional<Measured> peak_gpu_memory_bytes;  // of a rank's tensors
  std::optional<Measured> speedup;                // over the baseline, by the time of a step, else of a trial
  /// True for a baseline of which only one trial is done, the sweep's first, which a cold machine slows
  /// down. Other rows then get no speed-up.
  bool is_cold = false;
  bool is_whole() const { return failed + stopped + waiting == 0; }

  std::string best_id;  // the trial with the best metric
  /// True for the row with the fastest step among those whose metric is within the best row's spread. It must
  /// be faster than the best row by more than the spread of either; otherwise the best row is marked.
  bool is_fastest = false;
};

/// The best first, as rows_of has them; those that are equal stay in their order.
void sort_rows(std::vector<ResultRow>& rows, bool smaller_is_better);

/// The rows that `trials` come to, the best first. Rows with failed, stopped or waiting trials follow the
/// complete ones, since their means include only the trials that are done. Rows without a metric come last,
/// in the plan's order.
std::vector<ResultRow> rows_of(const std::vector<Trial>& trials, bool smaller_is_better);

/// How clearly the first of a sweep's rows is the best.
enum class Standing {
  clear,
  only,        // no other row that is done has the metric
  unfinished,  // not all of its trials are done
  one_trial,   // so its spread is not known
  overlapped   // its interval, mean ± standard deviation, overlaps with those of other rows
};

struct BestRow {
  Standing standing = Standing::clear;
  std::vector<std::size_t> close;  // the rows that overlap with it
};

/// `rows`: sorted; the first has a metric. A row with a single trial is taken to have the first row's spread.
BestRow best_row(const std::vector<const ResultRow*>& rows);

/// Why the first of `rows` is not clearly the best, in words; empty if it is, or if all its trials are
/// done and no other whole row has the metric.
std::string doubt_of_best(const std::vector<ResultRow>& rows);

/// Why rows have no speed-up, and what to do, if the baseline is_cold and another row has a trial that is
/// done; empty otherwise.
std::string speedup_remark(const std::vector<ResultRow>& rows);

/// With the names of its members, without "is_"; a Measured as {"mean", "spread"}. Leaves out `is_cold`.
nlohmann::ordered_json json_of(const ResultRow& row);

/// "12.3 ± 0.4", or "12.3 (one trial)", of which no spread is known.
std::string text_with_spread(const Measured& value, std::size_t trials);

/// A table with aligned columns. Columns that are empty in every row are left out, and so are values in
/// `same`.
std::string table_text(const std::vector<ResultRow>& rows, const std::string& metric,
                       const Assignments& same);

}  // namespace hookline
