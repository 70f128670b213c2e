// What a report says first: which row is the best, where the spread of its metric allows to name one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/sweep_results.h"

namespace hookline {

/// A text, or, in its place, the name of a row.
struct HeadlinePart {
  std::string text;
  std::optional<std::size_t> row = {};
};

using HeadlineLine = std::vector<HeadlinePart>;

/// Of each sweep. A row is called the best if all its trials are done, there is more than one of them, and its spread overlaps with
/// that of no other such row; one that was tried once is taken to have the best one's spread.
std::vector<HeadlineLine> headline(const SweepResults& results);

}  // namespace hookline
