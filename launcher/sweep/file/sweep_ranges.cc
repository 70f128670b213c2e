#include "launcher/sweep/file/sweep_ranges.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <variant>

namespace hookline {
namespace {

constexpr std::size_t kMostValues = 10'000;  // of one key
constexpr double kLargest = 9e15;            // integers up to here are exact

/// The number without the digits that a step of 0.1 adds: 0.3, not 0.30000000000000004.
std::string number_text(double number, bool whole) {
  if (whole) return std::to_string(std::llround(number));
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", number);
  return text;
}

std::optional<double> number_in(const TomlNode& node) {
  if (node.kind != TomlNode::Kind::scalar) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&node.value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&node.value)) return *number;
  return std::nullopt;
}

bool is_whole(const TomlNode& node) { return std::holds_alternative<std::int64_t>(node.value); }

}  // namespace

std::optional<SweepRange> read_range(const std::string& key, const TomlNode& node, bool to_draw,
                                     const TellProblem& tell) {
  SweepRange range;
  bool is_right = true;
  const auto error = [&](Span at, const std::string& message, const std::string& note) {
    is_right = false;
    tell(at, message, note);
  };
  bool has_from = false, has_to = false;
  range.whole = true;
  for (const auto& [name, child] : node.children) {
    const std::optional<double> number = number_in(child);
    if (name == "log" && child.kind == TomlNode::Kind::scalar && std::holds_alternative<bool>(child.value)) {
      range.log = std::get<bool>(child.value);
    } else if (name == "log" || name == "from" || name == "to" ||
               (!to_draw && (name == "step" || name == "count"))) {
      if (!number || name == "log") {
        error(child.place, "bad value for '" + name + "' of '" + key + "'",
              name == "log" ? "it must be true or false" : "it must be a number");
        continue;
      }
      if (name != "count") range.whole = range.whole && is_whole(child);
      if (name == "from") range.from = *number, has_from = true;
      if (name == "to") range.to = *number, has_to = true;
      if (name == "step") range.step = *number;
      if (name == "count") range.count = *number;
    } else {
      error(child.key, "unknown key '" + name + "' in the range of '" + key + "'",
            to_draw ? "a range to draw from has from, to and log"
                    : "a range has from, to, step or count, and log");
    }
  }
  if (!is_right) return std::nullopt;
  const auto is_plain = [](double number) { return std::abs(number) <= kLargest; };
  if (!is_plain(range.from) || !is_plain(range.to) || !is_plain(range.step.value_or(1))) {
    error(node.place, "the range of '" + key + "' has a number that can't be used",
          "its numbers must be finite, and from -9e15 to 9e15");
  } else if (!has_from || !has_to) {
    error(node.place, "the range of '" + key + "' needs from and to", "write { from = 1, to = 4 }");
  } else if (range.from > range.to) {
    error(node.place, "the range of '" + key + "' ends before it begins",
          "'from' must not be greater than 'to'");
  } else if (range.log && range.from <= 0) {
    error(node.place, "the range of '" + key + "' has no logarithm",
          "with log = true, from must be more than 0");
  } else if (range.step && (range.count || range.log || *range.step <= 0)) {
    error(node.place, "the range of '" + key + "' can't be stepped through",
          "step must be more than 0, and can't be combined with count or log");
  } else if (range.count && (*range.count < 1 || *range.count != std::floor(*range.count) ||
                             *range.count > static_cast<double>(kMostValues))) {
    error(node.place, "the range of '" + key + "' has a count that can't be used",
          "it must be a whole number from 1 to " + std::to_string(kMostValues));
  } else if (range.count == 1 && range.from < range.to) {
    error(node.place, "the range of '" + key + "' has two ends and a count of 1",
          "ask for 2 values or more, or write the one value by itself");
  } else if (!to_draw && !range.count && !range.step && (range.log || !range.whole)) {
    error(node.place, "the range of '" + key + "' needs a count", "write how many values: count = 4");
  }
  return is_right ? std::optional(range) : std::nullopt;
}

std::vector<std::string> values_of_range(const std::string& key, const TomlNode& node,
                                         const TellProblem& tell) {
  const std::optional<SweepRange> read = read_range(key, node, /*to_draw=*/false, tell);
  if (!read) return {};
  const SweepRange& given = *read;
  std::vector<double> numbers;
  if (given.count) {
    const double last = *given.count - 1;
    for (double i = 0; i <= last; ++i) {
      const double part = last > 0 ? i / last : 0;
      numbers.push_back(given.log ? given.from * std::pow(given.to / given.from, part)
                                  : given.from + (given.to - given.from) * part);
    }
  } else {
    const double step = given.step.value_or(1);
    const double steps = std::floor((given.to - given.from) / step + 1e-9);
    if (steps >= static_cast<double>(kMostValues)) {
      tell(node.place, "the range of '" + key + "' has too many values",
           "it may have at most " + std::to_string(kMostValues));
      return {};
    }
    for (double i = 0; i <= steps; ++i) numbers.push_back(given.from + i * step);
  }
  std::vector<std::string> values;
  const double nothing = 1e-9 * (given.to - given.from);  // less than this is a rounding error of 0
  for (const double number : numbers) {
    const bool is_whole = given.log || std::abs(number - std::round(number)) < 1e-9;
    std::string value = number_text(std::abs(number) < nothing ? 0 : number, given.whole);
    if (given.whole && (!is_whole || (!values.empty() && values.back() == value))) {
      tell(node.place,
           "the range of '" + key + "' does not have " + std::to_string(numbers.size()) +
               " evenly spaced integers" + (given.log ? " on a log scale" : ""),
           "with integers as 'from' and 'to', all values are integers: write from = " +
               std::to_string(std::llround(given.from)) + ".0 for others");
      return {};
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace hookline
