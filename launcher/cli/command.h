// The `hookline` command.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// Finds the verb in the command line (without the command's own name), runs it, and turns what it throws
/// into a message and an exit code.
int run_command(const std::vector<std::string>& arguments);

}  // namespace hookline
