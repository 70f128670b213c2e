// Commands as a shell takes them.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// A word, quoted if it has to be.
std::string shell_word(const std::string& word);

/// Words as one line.
std::string shell_line(const std::vector<std::string>& words);

/// The same for display: newlines and other control characters are quoted as $'\n', which bash, zsh and ksh
/// understand, so the result is a single line that can't control a terminal.
std::string shown_shell_line(const std::vector<std::string>& words);

struct CommandOutput {
  std::string text;   // standard output and error, without newlines at the end
  int exit_code = 0;  // a shell's: 127 if there is no such program
};

/// Runs a command to its end. Throws std::system_error if there can't be another process.
CommandOutput output_of(const std::vector<std::string>& command);

}  // namespace hookline
