#include "launcher/cli/link_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "launcher/cli/verb_parser.h"

namespace hookline {
namespace {

constexpr double kSlowestLink = 1e3, kFastestLink = 1e15;  // bits a second

/// "2.5Gbit": 2.5 and "gbit"; a number that is not positive for what does not begin with one.
std::pair<double, std::string> number_and_unit(const std::string& text) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(read.ptr, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  return {read.ec == std::errc() ? number : 0, std::move(unit)};
}

}  // namespace

double link_speed_of(const std::string& text) {
  const auto [number, unit] = number_and_unit(text);
  if (!(number > 0) || (unit != "mbit" && unit != "gbit"))
    throw UsageError("--link '" + text + "' is no speed: write 100mbit or 10gbit");
  const double bits = number * (unit == "gbit" ? 1e9 : 1e6);
  if (bits < kSlowestLink || bits > kFastestLink)
    throw UsageError("--link '" + text + "' is no network's speed: it is from 0.001mbit to 1000000gbit");
  return bits;
}

LinkText link_of(const std::string& text) {
  const std::size_t comma = text.find(',');
  LinkText link{link_speed_of(text.substr(0, comma)), 0};
  if (comma == std::string::npos) return link;
  const auto [number, unit] = number_and_unit(text.substr(comma + 1));
  if (!(number >= 0) || (unit != "us" && unit != "ms" && unit != "s"))
    throw UsageError("--link '" + text + "' has no latency behind the comma: write 1gbit,0.2ms");
  link.latency_seconds = number * (unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1);
  if (link.latency_seconds > 60) throw UsageError("--link '" + text + "': a latency is at most 60s");
  return link;
}

}  // namespace hookline
