#include "launcher/sweep/grid_points.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "checkpoint/checksum.h"
#include "launcher/sweep/file/command_line.h"

namespace hookline {
namespace {

constexpr std::size_t kIdDigits = 12;
constexpr int kMostMisses = 1000;  // a search ends after so many known or excluded points in a row

/// 1 and 1.0 are one value.
bool is_same(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto number = [](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  const auto first = number(a), second = number(b);
  return first && second && *first == *second;
}

bool meets(const Exclusion& exclusion, const Assignments& point) {
  const auto has = [&](const Dimension& each) {
    const auto value = point.find(each.key);
    return value != point.end() &&
           std::any_of(each.values.begin(), each.values.end(),
                       [&](const std::string& other) { return is_same(other, value->second); });
  };
  return !exclusion.empty() && std::all_of(exclusion.begin(), exclusion.end(), has);
}

/// Calls `take` with every combination; the values of `zip` change fastest, then the last dimension's.
void combine(const Grid& grid, std::size_t next, Assignments& point,
             const std::function<void(const Assignments&)>& take) {
  if (next < grid.dimensions.size()) {
    const Dimension& dimension = grid.dimensions[next];
    for (const std::string& value : dimension.values) {
      point[dimension.key] = value;
      combine(grid, next + 1, point, take);
    }
    return;
  }
  if (grid.zip.empty()) return take(point);
  for (std::size_t i = 0; i < grid.zip.front().values.size(); ++i) {
    for (const Dimension& dimension : grid.zip) point[dimension.key] = dimension.values[i];
    take(point);
  }
}

/// Draws the same numbers on every machine, unlike the standard library's distributions.
class Random {
 public:
  explicit Random(std::int64_t seed) : engine_(static_cast<std::uint64_t>(seed)) {}

  /// A number in [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

/// The value with six digits, or with more if the range is too narrow for six.
std::string text_of(double value, double from, double to) {
  constexpr double kFine = 1e-6;  // as a fraction of the range
  constexpr int kAllDigits = 17;
  char text[32];
  for (int digits = 6;; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double read = std::strtod(text, nullptr);
    if (digits == kAllDigits || (read >= from && read <= to && std::abs(read - value) <= kFine * (to - from)))
      return text;
  }
}

std::string drawn(const Draw& draw, Random& random) {
  const double part = random.uniform();
  if (!draw.choices.empty())
    return draw.choices[static_cast<std::size_t>(part * static_cast<double>(draw.choices.size()))];
  const double most = draw.whole ? draw.to + 1 : draw.to;  // so that the last integer gets its full share
  const double value =
      draw.log ? draw.from * std::pow(most / draw.from, part) : draw.from + (most - draw.from) * part;
  if (draw.whole) return std::to_string(static_cast<std::int64_t>(std::min(std::floor(value), draw.to)));
  return text_of(std::clamp(value, draw.from, draw.to), draw.from, draw.to);
}

std::string id_of(const std::string& config, const std::vector<std::string>& program, std::int64_t repeat) {
  std::string all = config;
  for (const std::string& word : program) all += "\nword " + word;
  all += "\nrepeat " + std::to_string(repeat);
  return checksum_of(all.data(), all.size()).substr(0, kIdDigits);
}

/// The grid points of a sweep, in order, without those that its exclusions drop.
class GridPoints {
 public:
  explicit GridPoints(const SweepFile& sweep)
      : exclusions_(sweep.exclusions), is_used_(exclusions_.size(), false) {
    for (const Grid& grid : sweep.grids) {
      Assignments point = sweep.fixed;
      combine(grid, 0, point, [this](const Assignments& each) { add(each); });
    }
    for (const RandomSearch& search : sweep.searches) {
      const std::int64_t found = draw(search, sweep.fixed);
      if (found < search.samples)
        remarks_.push_back("a random search for " + count_text(search.samples, "sample") +
                           " has found only " + count_text(found, "new one") +
                           ": there are hardly any others");
    }
    for (std::size_t i = 0; i < exclusions_.size(); ++i) {
      if (is_used_[i]) continue;
      Assignments first;
      for (const Dimension& each : exclusions_[i])
        if (!each.values.empty()) first[each.key] = each.values.front();
      remarks_.push_back("an exclusion matches no combination: " + label_of(first, {}));
    }
  }

  std::vector<Assignments> take() { return std::move(points_); }

  /// For people: exclusions that matched no grid point, searches that found too few.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  /// Adds points of a random search; returns how many are new.
  std::int64_t draw(const RandomSearch& search, const Assignments& fixed) {
    Random random(search.seed);
    int misses = 0;  // in a row: there may be no more grid points
    std::int64_t found = 0;
    while (found < search.samples && misses < kMostMisses) {
      Assignments point = fixed;
      for (const Draw& draw : search.draws) point[draw.key] = drawn(draw, random);
      const bool is_new = add(point);
      found += is_new;
      misses = is_new ? 0 : misses + 1;
    }
    return found;
  }

  /// Adds a point. False if it is there already, or excluded.
  bool add(const Assignments& point) {
    bool is_out = false;
    for (std::size_t i = 0; i < exclusions_.size(); ++i) {
      if (!meets(exclusions_[i], point)) continue;
      is_out = is_used_[i] = true;
    }
    if (is_out || !seen_.insert(point).second) return false;
    if (points_.size() == kMostGridPoints)
      throw Error("the sweep has more than " + std::to_string(kMostGridPoints) +
                  " combinations: try fewer values");
    points_.push_back(point);
    return true;
  }

  const std::vector<Exclusion>& exclusions_;
  std::vector<bool> is_used_;
  std::vector<Assignments> points_;
  std::set<Assignments> seen_;
  std::vector<std::string> remarks_;
};

}  // namespace

std::vector<Assignments> grid_points_of(const SweepFile& sweep) { return GridPoints(sweep).take(); }

std::string label_of(const Assignments& values, const Assignments& same) {
  const auto name_of = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  std::map<std::string, int> uses;  // by name: how many keys have it
  for (const auto& [key, value] : values) ++uses[name_of(key)];
  std::string label, arguments;
  for (const auto& [key, value] : values) {
    const auto alike = same.find(key);
    if (alike != same.end() && alike->second == value) continue;
    const std::string name = name_of(key);
    std::string& text = key.starts_with(kArgumentPrefix) ? arguments : label;
    text += " " + (uses[name] > 1 ? key : name) + "=";
    for (const char c : value) text += static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  label += arguments;
  return label.empty() ? label : label.substr(1);
}

SweepPlan plan_of(const SweepFile& sweep, const std::function<ResolvedPoint(const Assignments&)>& resolve) {
  const SweepSettings& settings = sweep.settings;
  SweepPlan plan;

  struct Row {
    Assignments values;
    ResolvedPoint point;
    std::vector<std::string> program;
    std::string same;  // equal for rows that run the same
  };
  std::set<std::string> known;
  std::set<Assignments> invalid, never_starting;  // reported once for all seeds
  const auto row_of = [&](Assignments values, const std::optional<std::int64_t>& seed) -> std::optional<Row> {
    const Assignments point = values;
    if (seed) values[kSeedKey] = std::to_string(*seed);
    ResolvedPoint resolved = resolve(values);
    std::vector<std::string> program;
    try {
      program = command_of(settings.program, values);
    } catch (const Error& error) {
      if (resolved.problems.empty()) resolved.problems = std::string(error.what()) + "\n";
    }
    if (!resolved.problems.empty()) {
      if (invalid.insert(point).second) plan.invalid.push_back({point, resolved.problems});
      return std::nullopt;
    }
    if (!resolved.never_starts.empty() && never_starting.insert(point).second)
      plan.never_starting.push_back({point, resolved.never_starts});
    const std::string same = id_of(resolved.identity, program, 0);
    return Row{values, std::move(resolved), std::move(program), same};
  };

  std::vector<std::optional<std::int64_t>> seeds(settings.seeds.begin(), settings.seeds.end());
  if (seeds.empty()) seeds.push_back(std::nullopt);
  std::map<std::string, std::int64_t> repeats;  // so far, by Row::same
  const auto add = [&](const Row& row, bool is_baseline) {
    if (plan.trials.size() == kMostGridPoints)
      throw Error("the sweep has more than " + std::to_string(kMostGridPoints) +
                  " trials: try fewer values, seeds or repeats");
    const std::int64_t repeat = repeats[row.same]++;
    plan.trials.push_back({id_of(row.point.identity, row.program, repeat), row.values, row.program, repeat,
                           is_baseline, row.point});
  };

  std::optional<Row> first_baseline;
  GridPoints all(sweep);
  plan.remarks = all.remarks();
  const std::vector<Assignments> points = all.take();
  for (const auto& seed : seeds) {
    std::optional<Row> baseline;
    if (sweep.baseline) {
      Assignments values = sweep.fixed;
      for (const auto& [key, value] : *sweep.baseline) values[key] = value;
      baseline = row_of(values, seed);
      if (!baseline) {
        const std::string& why = plan.invalid.back().problems;
        throw Error("the baseline can't run, and everything is compared with it: " +
                    why.substr(0, why.find_last_not_of('\n') + 1));
      }
      known.insert(baseline->same);
      if (!first_baseline) first_baseline = baseline;
    }
    std::vector<Row> rows;
    for (const Assignments& point : points)
      if (auto row = row_of(point, seed); row && known.insert(row->same).second)
        rows.push_back(std::move(*row));
    for (std::int64_t round = 0; round < settings.repeats; ++round) {
      if (baseline) add(*baseline, true);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const bool is_due = i > 0 && i % static_cast<std::size_t>(settings.baseline_every) == 0;
        if (baseline && is_due) add(*baseline, true);
        add(rows[i], false);
      }
    }
  }
  if (!first_baseline || plan.trials.size() < 2) return plan;
  const auto second_baseline = [&plan] {
    return std::find_if(plan.trials.begin() + 1, plan.trials.end(),
                        [](const PlannedTrial& trial) { return trial.is_baseline; });
  };
  plan.repeats_baseline = second_baseline() == plan.trials.end();
  if (plan.repeats_baseline) add(*first_baseline, true);
  // Moved right after the first other trial, so that a sweep that ends early has run it.
  if (const auto second = second_baseline(); second > plan.trials.begin() + 2)
    std::rotate(plan.trials.begin() + 2, second, second + 1);
  return plan;
}

}  // namespace hookline
