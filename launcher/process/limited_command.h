// Runs a helper program with time limits, since the file it reads may be crafted to keep it busy forever.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hookline {

/// Both are above 0.
struct CommandLimits {
  std::chrono::seconds processor_time;
  std::chrono::milliseconds time;  // from its start to its end
};

struct LimitedOutput {
  std::string text;          // standard output and error, without newlines at the end
  int exit_code = 0;         // a shell's: 128 + n if signal n killed it
  std::string beyond_limit;  // "took more than 60 s of processor time"; empty if it ended by itself
};

/// Runs a program, whose path comes first, to its end or to its limits, where it is killed with its process
/// group. Throws SpawnError, or std::system_error if there can't be a pipe.
LimitedOutput output_within(const std::vector<std::string>& command, const CommandLimits& limits);

}  // namespace hookline
