#include "launcher/report/headline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/number_text.h"

namespace hookline {
namespace {

constexpr std::size_t kMostNamed = 3;
constexpr double kCompressed = 1.005;  // a lower ratio is not called compression

/// A value and its spread. A single trial has no spread: that is said once, beside the row's name.
std::string told(const Measured& value, const ResultRow& row) {
  return row.done == 1 && value.spread == 0 ? rounded(value.mean, 4) : text_with_spread(value, row.done);
}

/// The headline of one sweep.
class SweepHeadline {
 public:
  /// `rows`: the rows of the sweep, the best first.
  SweepHeadline(const SweepResults& results, std::vector<std::size_t> rows)
      : results_(results), rows_(std::move(rows)) {
    for (const std::size_t row : rows_)
      if (!baseline_ && of(row).is_baseline) baseline_ = row;
  }

  std::vector<HeadlineLine> lines() const {
    const std::size_t first = rows_.front();
    if (!of(first).metric) return {};
    const std::string superlative = results_.facts.goal == "max" ? "highest" : "lowest";
    const std::string first_of_all = "the " + superlative + " " + results_.facts.metric;
    const std::string place = superlative == "highest" ? "Highest" : "Lowest";
    std::vector<const ResultRow*> all;
    for (const std::size_t row : rows_) all.push_back(&of(row));
    const BestRow best = best_row(all);
    if (best.standing == Standing::unfinished)
      return {{{"No best yet: no row has all its trials done."}}, merits(place + " so far: ", first)};
    if (best.standing == Standing::only) return {merits("", first)};
    const std::string of_these =
        has_unfinished() ? place + " of the rows with all trials done: " : place + ": ";
    if (best.standing == Standing::one_trial)
      return {{{"No best: " + first_of_all + " comes from one trial, so its spread is not known."}},
              merits(of_these, first)};
    if (best.standing == Standing::clear)
      return {merits(has_more_to_come() ? "Best so far: " : "Best: ", first)};
    std::vector<std::size_t> as_good;
    for (const std::size_t row : best.close) as_good.push_back(rows_[row]);
    std::vector<HeadlineLine> lines = {overlap_line(first_of_all, as_good), merits(of_these, first)};
    for (const std::size_t row : as_good)
      if (of(row).is_fastest) lines.push_back(merits("As good within the spread, and faster: ", row));
    return lines;
  }

 private:
  const ResultRow& of(std::size_t row) const { return results_.rows[row]; }

  bool has_more_to_come() const {
    return std::any_of(rows_.begin(), rows_.end(), [&](std::size_t row) { return of(row).waiting > 0; });
  }

  /// Are there rows whose metric may change, or that lack trials?
  bool has_unfinished() const {
    return std::any_of(rows_.begin(), rows_.end(),
                       [&](std::size_t row) { return of(row).metric && !of(row).is_whole(); });
  }

  static HeadlineLine overlap_line(const std::string& first_of_all, const std::vector<std::size_t>& rows) {
    const std::string which = rows.size() == 1 ? "that of another row: "
                                               : "those of " + std::to_string(rows.size()) + " other rows: ";
    HeadlineLine line = {{"No clear best: the spread of " + first_of_all + " overlaps with " + which}};
    for (std::size_t i = 0; i < rows.size() && i < kMostNamed; ++i) {
      if (i > 0) line.push_back({i + 1 == rows.size() ? " and " : ", "});
      line.push_back({"", rows[i]});
    }
    line.push_back(
        {rows.size() > kMostNamed ? " and " + std::to_string(rows.size() - kMostNamed) + " more." : "."});
    return line;
  }

  /// A line with what makes a row good.
  HeadlineLine merits(const std::string& lead, std::size_t index) const {
    const ResultRow& row = of(index);
    const SweepFacts& facts = results_.facts;
    std::string text = row.done == 1 ? " (one trial, so no spread is known): " : ": ";
    text += facts.metric + (facts.metric_value == "best" ? ", best " : " ") + told(*row.metric, row);
    if (baseline_ && *baseline_ != index && of(*baseline_).metric)
      text += " (baseline " + told(*of(*baseline_).metric, of(*baseline_)) + ")";
    if (row.speedup) text += "; " + told(*row.speedup, row) + " times the baseline's speed";
    if (row.compression && row.compression->mean > kCompressed)
      text += "; " + told(*row.compression, row) + " times fewer bytes than the gradients have";
    return {{lead}, {"", index}, {text + "."}};
  }

  const SweepResults& results_;
  const std::vector<std::size_t> rows_;
  std::optional<std::size_t> baseline_;
};

}  // namespace

std::vector<HeadlineLine> headline(const SweepResults& results) {
  if (results.trials.empty()) return {{{"The sweep has no trials."}}};
  std::map<std::string, std::vector<std::size_t>> sweeps;
  for (std::size_t row = 0; row < results.rows.size(); ++row) {
    const Assignments& values = results.rows[row].values;
    const auto sweep = values.find(kSweepColumn);
    sweeps[sweep == values.end() ? "" : sweep->second].push_back(row);
  }
  std::vector<HeadlineLine> all;
  for (const auto& [sweep, rows] : sweeps) {
    for (HeadlineLine& line : SweepHeadline(results, rows).lines()) {
      if (sweeps.size() > 1) line.insert(line.begin(), HeadlinePart{sweep + ": "});
      all.push_back(std::move(line));
    }
  }
  if (all.empty()) all.push_back({{"No trial has a value of the metric."}});
  return all;
}

}  // namespace hookline
