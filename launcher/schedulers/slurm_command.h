// Runs Slurm's commands, which hang as long as their controller does.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "launcher/process/shell.h"
#include "launcher/process/signals.h"

namespace hookline {

/// A Slurm command is missing or failed; what() has its output.
class SlurmError : public Error {
 public:
  using Error::Error;
};

/// A signal asked this process to end while it waited for Slurm. Not a std::exception, so that handlers of
/// errors do not catch it.
struct Interrupted {
  int signal = 0;
};

/// How long a command may take. Slurm's own timeouts are shorter, and a busy controller answers sooner.
inline constexpr std::chrono::seconds kLongestAnswer{120};

/// Runs a command to its end, like output_of. Throws Interrupted as soon as `signals` has a signal that asks
/// to end, and SlurmError after `limit`; in both cases the command and its children are killed.
CommandOutput answer_of(const std::vector<std::string>& command, Signals& signals,
                        std::chrono::milliseconds limit = kLongestAnswer);

/// Writes `text` to standard output, however slow its reader is. Throws Interrupted as answer_of does, and
/// with SIGPIPE if the reader is gone.
void show_text(std::string_view text, Signals& signals);

}  // namespace hookline
