#include "config/schema/link_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bounded_json.h"
#include "base/regular_file.h"
#include "base/text/number_text.h"

namespace hookline {
namespace {

constexpr std::uint64_t kLargestReport = 64 << 20;
constexpr double kMegabit = 1e6, kGigabit = 1e9;
constexpr double kSlowestLink = 1e3, kFastestLink = 1e15;  // bits a second
constexpr double kLongestLatency = 60;                     // seconds
constexpr int kDigits = 4;

/// Splits "2.5Gbit" into 2.5 and "gbit". The number is 0 if `text` does not begin with one.
std::pair<double, std::string> number_and_unit(const std::string& text) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(read.ptr, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  return {read.ec == std::errc() ? number : 0, std::move(unit)};
}

/// Throws unless `link`, which `text` names, may be a network.
void expect_network(const NamedLink& link, const std::string& text) {
  if (link.bits_per_second < kSlowestLink || link.bits_per_second > kFastestLink)
    throw LinkTextError("'" + text + "' is out of range", "a speed must be from 0.001mbit to 1000000gbit");
  if (link.latency_seconds > kLongestLatency)
    throw LinkTextError("'" + text + "' has too long a latency", "a latency must be at most 60s");
}

}  // namespace

double link_speed_of(const std::string& text) {
  const auto [number, unit] = number_and_unit(text);
  if (!(number > 0) || (unit != "mbit" && unit != "gbit"))
    throw LinkTextError("'" + text + "' is not a speed", "write one as in 100mbit or 10gbit");
  const double bits = number * (unit == "gbit" ? kGigabit : kMegabit);
  expect_network({bits, 0}, text);
  return bits;
}

NamedLink link_in_report(const std::string& name) {
  InputFile file(name, kLargestReport);
  const std::string text = file.read_all();
  if (file.problem() != FileProblem::none) throw LinkTextError("'" + name + "' can't be read", file.why());
  const auto report = json_or_discarded<nlohmann::json>(text);
  NamedLink slowest;
  try {
    for (const nlohmann::json& link : report.at("links")) {
      if (link.at("same_node").get<bool>()) continue;
      const double bits = 8 * link.at("bytes_per_second").get<double>();
      if (!(bits > 0)) continue;
      if (slowest.bits_per_second == 0 || bits < slowest.bits_per_second) slowest.bits_per_second = bits;
      slowest.latency_seconds = std::max(slowest.latency_seconds, link.at("latency_seconds").get<double>());
    }
  } catch (const nlohmann::json::exception&) {
    throw LinkTextError("'" + name + "' is not a report of hookline test",
                        "make one with hookline test --json, or write 1gbit,0.2ms");
  }
  if (slowest.bits_per_second == 0)
    throw LinkTextError("'" + name + "' has no link between hosts",
                        "run hookline test on two hosts, or write 1gbit,0.2ms");
  expect_network(slowest, name);
  return slowest;
}

// "125MB/s" and "1Gbit/s,200us" are speeds with a unit of another kind.
bool names_link_report(const std::string& text) {
  if (text.ends_with(".json")) return true;
  const bool is_speed = text.find("/s") != text.npos && number_and_unit(text).first > 0;
  return !is_speed && text.find('/') != text.npos;
}

NamedLink link_of(const std::string& text) {
  if (names_link_report(text)) return link_in_report(text);
  if (number_and_unit(text).first <= 0)
    throw LinkTextError("'" + text + "' does not describe a network",
                        "write speed and latency, as in 1gbit,0.2ms, or a file whose name ends in .json");
  const std::size_t comma = text.find(',');
  NamedLink link{link_speed_of(text.substr(0, comma)), 0};
  if (comma == std::string::npos) return link;
  const auto [number, unit] = number_and_unit(text.substr(comma + 1));
  if (!(number >= 0) || (unit != "us" && unit != "ms" && unit != "s"))
    throw LinkTextError("'" + text + "' has no valid latency after the comma",
                        "write it in us, ms or s, as in 1gbit,0.2ms");
  link.latency_seconds = number * (unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1);
  expect_network(link, text);
  return link;
}

std::string to_text(const NamedLink& link) {
  return rounded(link.bits_per_second / kMegabit, kDigits) + "mbit," +
         rounded(1e3 * link.latency_seconds, kDigits) + "ms";
}

}  // namespace hookline
