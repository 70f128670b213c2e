// "did you mean …?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// The candidate nearest to `word` (Damerau–Levenshtein, case-insensitive, at most a third of the longer word
/// away), or nothing. Ties go to the earlier candidate.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hookline
