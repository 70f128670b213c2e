// How messages name a number of things.
#pragma once

#include <concepts>
#include <string>

namespace hookline {

/// "1 rank", "3 files", "0 lines". `what` is the singular of a noun whose plural is regular.
std::string count_text(std::integral auto count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace hookline
