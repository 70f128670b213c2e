// Names of rows, for legends and axes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "launcher/sweep/file/sweep_file.h"

namespace hookline {

/// "power_sgd r2 · fp16 · lr=0.1": a name for each of `rows`, which says in short what tells it from the others. No two are
/// the same. A key is left out if all rows that have it have the same value, unless names would be the same without it.
std::map<Assignments, std::string> row_names(const std::set<Assignments>& rows);

}  // namespace hookline
