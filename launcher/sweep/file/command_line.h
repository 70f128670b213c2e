// A trial's command line: the sweep's program with the values that a grid point gives its arguments.
#pragma once

#include <string>
#include <vector>

#include "launcher/sweep/file/sweep_file.h"

namespace hookline {

/// The names that stand in `word` as {NAME}, of letters, digits, '_' and '-'. "{{" and "${" begin none:
/// "{{" stands for a brace, and "${" belongs to the shell.
std::vector<std::string> placeholders_of(const std::string& word);

/// The program's command line with the values of `args.NAME`: in the place of {NAME}, or after all others as
/// --NAME VALUE. Throws Error if a {NAME} has no value.
std::vector<std::string> command_of(const std::vector<std::string>& program, const Assignments& values);

}  // namespace hookline
