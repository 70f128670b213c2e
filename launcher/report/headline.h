// What a report says first: which row is the best, if the spread of its metric allows naming one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/sweep_results.h"

namespace hookline {

/// A piece of text or, instead, the name of a row.
struct HeadlinePart {
  std::string text;
  std::optional<std::size_t> row = {};
};

using HeadlineLine = std::vector<HeadlinePart>;

/// The headline of each sweep. A row is called the best if all its trials are done, if it has more than one,
/// and if its spread overlaps with that of no other row whose trials are all done. If no other row has
/// all its trials done, none is called the best. A row with a single trial is taken to have the best row's
/// spread.
std::vector<HeadlineLine> headline(const SweepResults& results);

}  // namespace hookline
