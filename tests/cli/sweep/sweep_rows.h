// The parts of a sweep's results that tests compare.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace hookline::testing {

/// The rows printed by `hookline sweep --json`, without timing fields.
inline std::vector<nlohmann::json> timeless(const std::string& lines) {
  std::vector<nlohmann::json> rows;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    nlohmann::json row = nlohmann::json::parse(line);
    for (const char* name : {"trial_seconds", "step_seconds", "speedup", "fastest"}) row.erase(name);
    rows.push_back(row);
  }
  return rows;
}

inline std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace hookline::testing
