// Names of rows, for legends and axes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "launcher/sweep/file/sweep_file.h"

namespace hookline {

/// "power_sgd r2 · fp16 · lr=0.1": a short name for each of `rows` that distinguishes it from the others. No
/// two names are the same. Leaves out a key if all rows that have it have the same value, unless there is
/// only one row, or names would become equal.
std::map<Assignments, std::string> row_names(const std::set<Assignments>& rows);

}  // namespace hookline
