#include "launcher/sweep/table.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "base/text/number_text.h"
#include "base/text/printable.h"
#include "launcher/output/columns.h"

namespace hookline {
namespace {

constexpr double kNoSpread = 1e-9;  // relative to the mean: rounding errors

std::optional<Measured> measured(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  Measured result;
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  for (const double value : values) result.spread += (value - result.mean) * (value - result.mean);
  result.spread = values.size() > 1 ? std::sqrt(result.spread / static_cast<double>(values.size() - 1)) : 0;
  return result;
}

/// a / b. The squares of the relative errors add up.
std::optional<Measured> ratio(const std::optional<Measured>& a, const std::optional<Measured>& b) {
  if (!a || !b || a->mean <= 0 || b->mean <= 0) return std::nullopt;
  const double mean = a->mean / b->mean;
  return Measured{mean, mean * std::hypot(a->spread / a->mean, b->spread / b->mean)};
}

std::string with_spread(const Measured& value, double unit, int digits) {
  std::string text = rounded(value.mean / unit, digits);
  if (value.spread > kNoSpread * std::abs(value.mean)) text += " ± " + rounded(value.spread / unit, 2);
  return text;
}

std::string in_unit(const Measured& value, const Unit& unit) {
  return with_spread(value, unit.size, 3) + " " + unit.name;
}

std::string duration_text_of(const Measured& value) {
  return in_unit(value, duration_unit(std::chrono::duration<double>(value.mean)));
}

std::string bytes_text_of(const Measured& value) { return in_unit(value, bytes_unit(value.mean)); }

struct Group {
  ResultRow row;
  std::vector<double> metric, step_seconds, trial_seconds, bytes, compression, memory, gpu_memory;
};

void add(const Trial& trial, bool smaller_is_better, Group& group, double& best) {
  ResultRow& row = group.row;
  const TrialResult& result = trial.result;
  row.is_baseline = row.is_baseline || trial.planned.is_baseline;
  row.failed += result.status == TrialStatus::failed;
  row.stopped += result.status == TrialStatus::stopped;
  row.waiting += result.status == TrialStatus::waiting || result.status == TrialStatus::running;
  if (result.status != TrialStatus::done) return;
  ++row.done;
  group.trial_seconds.push_back(result.seconds);
  if (result.metric) {
    group.metric.push_back(*result.metric);
    if (row.best_id.empty() || (smaller_is_better ? *result.metric < best : *result.metric > best)) {
      best = *result.metric;
      row.best_id = trial.planned.id;
    }
  }
  const Measures measures(result);
  if (const auto seconds = measures["step_seconds"]) group.step_seconds.push_back(*seconds);
  const auto bytes = measures["bytes_per_step"], whole = measures["uncompressed_bytes_per_step"];
  if (bytes) group.bytes.push_back(*bytes);
  if (bytes && whole && *bytes > 0) group.compression.push_back(*whole / *bytes);
  if (const auto memory = measures["peak_memory_bytes"]) group.memory.push_back(*memory);
  if (const auto memory = measures["peak_gpu_memory_bytes"]) group.gpu_memory.push_back(*memory);
}

/// Marks the fastest row that is as good as the best one. `rows`: sorted.
void mark_fastest(std::vector<ResultRow>& rows) {
  if (rows.empty() || !rows.front().metric || !rows.front().is_whole()) return;
  const Measured best = *rows.front().metric;
  ResultRow* fastest = nullptr;
  for (ResultRow& row : rows) {
    if (!row.metric || !row.step_seconds || !row.is_whole()) continue;
    if (std::abs(row.metric->mean - best.mean) > best.spread) continue;
    if (!fastest || row.step_seconds->mean < fastest->step_seconds->mean) fastest = &row;
  }
  if (!fastest) return;
  const auto is_faster = [](const Measured& one, const Measured& other) {
    return other.mean - one.mean > std::max(one.spread, other.spread);
  };
  ResultRow& first = rows.front();
  if (first.step_seconds && !is_faster(*fastest->step_seconds, *first.step_seconds)) fastest = &first;
  fastest->is_fastest = true;
}

}  // namespace

BestRow best_row(const std::vector<const ResultRow*>& rows) {
  const ResultRow& first = *rows.front();
  if (!first.is_whole()) return {Standing::unfinished, {}};
  BestRow best{Standing::only, {}};
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const ResultRow& other = *rows[i];
    if (!other.metric || !other.is_whole()) continue;
    best.standing = Standing::clear;
    const double spread = first.metric->spread + (other.done > 1 ? other.metric : first.metric)->spread;
    if (std::abs(first.metric->mean - other.metric->mean) <= spread) best.close.push_back(i);
  }
  if (best.standing == Standing::only) return best;
  if (first.done == 1) return {Standing::one_trial, {}};
  if (!best.close.empty()) best.standing = Standing::overlapped;
  return best;
}

std::string doubt_of_best(const std::vector<ResultRow>& rows) {
  std::vector<const ResultRow*> all;
  for (const ResultRow& row : rows) all.push_back(&row);
  const BestRow best = best_row(all);
  switch (best.standing) {
    case Standing::unfinished:
      return "not all trials of the first row are done";
    case Standing::one_trial:
      return "the first row has one trial, so its spread is not known";
    case Standing::overlapped:
      return "the spread of the first row's metric overlaps with that of " +
             count_text(best.close.size(), "other row");
    case Standing::only:
    case Standing::clear:
      break;
  }
  return "";
}

std::string short_name(const Trial& trial, const Assignments& same) {
  const std::string text = label_of(trial.planned.values, same);
  return text.empty() ? trial.planned.id : text;
}

std::string line_of(const Trial& trial, std::size_t ended, std::size_t all, const std::string& metric,
                    const Assignments& same) {
  const TrialResult& result = trial.result;
  const std::string time = duration_text(std::chrono::duration<double>(result.seconds));
  std::string line =
      "[" + std::to_string(ended) + "/" + std::to_string(all) + "] " + short_name(trial, same) + ": ";
  if (result.status != TrialStatus::done)
    return line + name_of(result.status) + " after " + time + ": " + result.reason;
  if (result.metric) line += metric + " " + rounded(*result.metric, 6) + ", ";
  return line + time;
}

Measures::Measures(const TrialResult& result) {
  const auto measures = json_or_discarded<nlohmann::json>(result.measures);
  if (!measures.is_object()) return;
  for (const auto& [name, value] : measures.items())
    if (value.is_number()) values_.emplace(name, value.get<double>());
}

std::optional<double> Measures::operator[](const char* name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? std::optional(found->second) : std::nullopt;
}

Assignments without_seed(Assignments values) {
  values.erase(kSeedKey);
  return values;
}

void sort_rows(std::vector<ResultRow>& rows, bool smaller_is_better) {
  std::stable_sort(rows.begin(), rows.end(), [&](const ResultRow& a, const ResultRow& b) {
    if (!a.metric || !b.metric) return a.metric.has_value() && !b.metric;
    if (a.is_whole() != b.is_whole()) return a.is_whole();
    return smaller_is_better ? a.metric->mean < b.metric->mean : a.metric->mean > b.metric->mean;
  });
}

std::vector<ResultRow> rows_of(const std::vector<Trial>& trials, bool smaller_is_better) {
  std::vector<Group> groups;
  std::vector<double> best;
  std::map<Assignments, std::size_t> places;
  for (const Trial& trial : trials) {
    const Assignments values = without_seed(trial.planned.values);
    const auto [place, is_new] = places.emplace(values, groups.size());
    if (is_new) {
      groups.emplace_back();
      groups.back().row.values = values;
      best.push_back(0);
    }
    add(trial, smaller_is_better, groups[place->second], best[place->second]);
  }
  std::vector<ResultRow> rows;
  const ResultRow* baseline = nullptr;
  for (Group& group : groups) {
    ResultRow& row = group.row;
    row.metric = measured(group.metric);
    row.step_seconds = measured(group.step_seconds);
    row.trial_seconds = measured(group.trial_seconds);
    row.bytes_per_step = measured(group.bytes);
    row.compression = measured(group.compression);
    row.peak_memory_bytes = measured(group.memory);
    row.peak_gpu_memory_bytes = measured(group.gpu_memory);
    if (row.is_baseline && !baseline) baseline = &row;
  }
  for (Group& group : groups) {
    ResultRow& row = group.row;
    const PlannedTrial& first = trials.front().planned;
    row.is_cold = row.is_baseline && row.done == 1 && !row.is_whole() && first.is_baseline &&
                  trials.front().result.status == TrialStatus::done &&
                  without_seed(first.values) == row.values;
  }
  for (Group& group : groups) {
    if (baseline && !baseline->is_cold && !group.row.is_baseline) {
      group.row.speedup = ratio(baseline->step_seconds, group.row.step_seconds);
      if (!group.row.speedup) group.row.speedup = ratio(baseline->trial_seconds, group.row.trial_seconds);
    }
  }
  for (const Group& group : groups) rows.push_back(group.row);
  sort_rows(rows, smaller_is_better);
  mark_fastest(rows);
  return rows;
}

std::string speedup_remark(const std::vector<ResultRow>& rows) {
  const bool is_cold = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.is_cold; });
  const bool has_others =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return !row.is_baseline && row.done > 0; });
  if (!is_cold || !has_others) return "";
  return "no speed-ups: the only baseline trial that is done is the sweep's first, which a cold machine "
         "slows "
         "down; run the sweep again to complete the others (--retry-failed repeats those that failed)";
}

nlohmann::ordered_json json_of(const ResultRow& row) {
  using Json = nlohmann::ordered_json;
  const auto of = [](const std::optional<Measured>& value) {
    return value ? Json{{"mean", value->mean}, {"spread", value->spread}} : Json(nullptr);
  };
  return {{"values", row.values},
          {"baseline", row.is_baseline},
          {"done", row.done},
          {"failed", row.failed},
          {"stopped", row.stopped},
          {"waiting", row.waiting},
          {"metric", of(row.metric)},
          {"step_seconds", of(row.step_seconds)},
          {"trial_seconds", of(row.trial_seconds)},
          {"bytes_per_step", of(row.bytes_per_step)},
          {"compression", of(row.compression)},
          {"peak_memory_bytes", of(row.peak_memory_bytes)},
          {"peak_gpu_memory_bytes", of(row.peak_gpu_memory_bytes)},
          {"speedup", of(row.speedup)},
          {"best_id", row.best_id},
          {"fastest", row.is_fastest}};
}

std::string text_with_spread(const Measured& value, std::size_t trials) {
  const std::string text = with_spread(value, 1, 4);
  if (trials > 1 && value.spread <= kNoSpread * std::abs(value.mean)) return text + " ± 0";
  return value.spread > kNoSpread * std::abs(value.mean) ? text : text + " (one trial)";
}

std::string table_text(const std::vector<ResultRow>& rows, const std::string& metric,
                       const Assignments& same) {
  struct Column {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<Column> columns;
  const auto column = [&](const std::string& name, const auto& cell) {
    Column next{name, {}};
    for (const ResultRow& row : rows) next.cells.push_back(cell(row));
    if (std::any_of(next.cells.begin(), next.cells.end(),
                    [](const std::string& text) { return !text.empty(); }))
      columns.push_back(std::move(next));
  };
  const auto of = [](const std::optional<Measured>& value, const auto& text) {
    return value ? text(*value) : std::string();
  };
  const auto plain = [](const Measured& value) { return with_spread(value, 1, 5); };
  const auto times = [](const Measured& value) { return with_spread(value, 1, 3) + "x"; };
  if (!metric.empty()) column(printable(metric), [&](const ResultRow& row) { return of(row.metric, plain); });
  column("step", [&](const ResultRow& row) { return of(row.step_seconds, duration_text_of); });
  column("trial", [&](const ResultRow& row) { return of(row.trial_seconds, duration_text_of); });
  column("speed-up",
         [&](const ResultRow& row) { return row.is_baseline ? "baseline" : of(row.speedup, times); });
  column("sent per step", [&](const ResultRow& row) { return of(row.bytes_per_step, bytes_text_of); });
  column("compression", [&](const ResultRow& row) { return of(row.compression, times); });
  column("memory", [&](const ResultRow& row) { return of(row.peak_memory_bytes, bytes_text_of); });
  column("GPU memory", [&](const ResultRow& row) { return of(row.peak_gpu_memory_bytes, bytes_text_of); });
  column("trials", [](const ResultRow& row) {
    std::string text = std::to_string(row.done);
    if (row.failed) text += ", " + std::to_string(row.failed) + " failed";
    if (row.stopped) text += ", " + std::to_string(row.stopped) + " stopped";
    if (row.waiting) text += ", " + std::to_string(row.waiting) + " to go";
    return text;
  });
  column("values", [&](const ResultRow& row) {
    const std::string label = label_of(row.values, same);
    return label.empty() ? std::string("(as the config has it)") : printable(label);
  });
  std::string text;
  for (std::size_t line = 0; line <= rows.size(); ++line) {
    std::string whole;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::size_t width = width_of(columns[c].name);
      for (const std::string& cell : columns[c].cells) width = std::max(width, width_of(cell));
      const std::string& cell = line == 0 ? columns[c].name : columns[c].cells[line - 1];
      whole += cell;
      if (c + 1 < columns.size()) whole += std::string(width - width_of(cell) + 2, ' ');
    }
    text += whole + "\n";
  }
  return text;
}

}  // namespace hookline
