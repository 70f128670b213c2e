#include "base/text/duration_text.h"

#include <cmath>

namespace hookline {
namespace {

constexpr Unit kSecond{"s", 1};
constexpr Unit kTimeUnits[] = {kSecond, {"ms", 1e-3}, {"µs", 1e-6}};

/// "2 min 5 s" for 125 and 60; "2 min" for 120.
std::string in_two_units(long long time, long long size, const char* large, const char* small) {
  const std::string text = std::to_string(time / size) + " " + large;
  return time % size == 0 ? text : text + " " + std::to_string(time % size) + " " + small;
}

}  // namespace

std::string duration_text(std::chrono::duration<double> time) {
  constexpr double kRoundedToAMinute = 59.95;  // shown as 60 s in three digits
  constexpr double kLongest = 1e12;
  const double seconds = time.count();
  if (!(seconds < kLongest)) return seconds_text(time);
  if (seconds < kRoundedToAMinute) return text_in(seconds, duration_unit(time));
  if (const long long whole = std::llround(seconds); whole < 3600) return in_two_units(whole, 60, "min", "s");
  return in_two_units(std::llround(seconds / 60), 60, "h", "min");
}

std::string seconds_text(std::chrono::duration<double> time) { return text_in(time.count(), kSecond); }

Unit duration_unit(std::chrono::duration<double> time) {
  return time.count() == 0 ? kSecond : unit_for(time.count(), kTimeUnits);
}

}  // namespace hookline
