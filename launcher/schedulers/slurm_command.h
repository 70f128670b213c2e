// Runs Slurm's commands, which may hang for as long as their controller does.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/shell.h"
#include "launcher/process/signals.h"

namespace hookline {

/// Slurm's commands are not there, or refuse; what() has what they say.
class SlurmError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A signal asked this process to end while it waited for Slurm. Not a std::exception, so that no handler of errors takes it.
struct Interrupted {
  int signal = 0;
};

/// After which a command is given up. Slurm's own timeouts are shorter, and a busy controller takes less.
inline constexpr std::chrono::seconds kLongestAnswer{120};

/// Runs a command to its end, as output_of does. Throws Interrupted as soon as `signals` has a signal that asks to end, and
/// SlurmError after `limit`; the command and its children are killed then.
CommandOutput answer_of(const std::vector<std::string>& command, Signals& signals,
                        std::chrono::milliseconds limit = kLongestAnswer);

/// Writes `text` to standard output, however slow its reader is. Throws Interrupted as answer_of does, and with SIGPIPE if
/// nobody reads any more.
void show_text(std::string_view text, Signals& signals);

}  // namespace hookline
