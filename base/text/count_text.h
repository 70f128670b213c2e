// How messages name a number of things.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "base/text/number_text.h"

namespace hookline {

/// "1 rank", "3 files", "0 lines". `what` is the singular of a noun whose plural is regular.
std::string count_text(std::integral auto count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Of a count that may be huge, and whose size matters rather than every digit: "17154 parameters", "6.3
/// million parameters", "1.2 billion parameters".
inline std::string rounded_count_text(std::int64_t count, const std::string& what) {
  constexpr std::int64_t kExactBelow = 1'000'000;
  constexpr Unit kLarge[] = {{"billion", 1e9}, {"million", 1e6}};
  if (count < kExactBelow) return count_text(count, what);
  const auto value = static_cast<double>(count);
  return text_in(value, unit_for(value, kLarge)) + " " + what + "s";
}

}  // namespace hookline
