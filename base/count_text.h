// How messages name a number of things.
#pragma once

#include <cstdint>
#include <string>

namespace hookline {

/// "1 rank", "3 files"
inline std::string count_text(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace hookline
