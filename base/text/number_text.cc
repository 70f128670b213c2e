#include "base/text/number_text.h"

#include <cmath>
#include <cstdio>
#include <cstring>

namespace hookline {

std::string rounded(double value, int digits) {
  constexpr double kLongest = 1e15;
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  if (std::strstr(text, "e+") && std::abs(value) < kLongest) std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

Unit unit_for(double value, std::span<const Unit> units) {
  constexpr double kRoundedToOne = 0.9995;  // shown as 1 in three digits: avoids "1000 kB"
  for (const Unit& unit : units)
    if (std::abs(value) >= kRoundedToOne * unit.size) return unit;
  return units.back();
}

std::string text_in(double value, const Unit& unit) {
  return rounded(value / unit.size, 3) + " " + unit.name;
}

}  // namespace hookline
