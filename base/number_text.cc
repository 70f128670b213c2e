#include "base/number_text.h"

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

}  // namespace hookline
