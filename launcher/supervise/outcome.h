// How a process ended.
#pragma once

#include <string>
#include <variant>

namespace hookline {

struct Exited {
  int code = 0;
  bool operator==(const Exited&) const = default;
};

struct Signalled {
  int signal = 0;
  bool core_dumped = false;
  bool operator==(const Signalled&) const = default;
};

using Outcome = std::variant<Exited, Signalled>;

/// From the status that waitpid() gives for a process that ended.
Outcome outcome_of(int wait_status);

bool succeeded(const Outcome& outcome);

/// As a shell counts: the code itself, or 128 + the signal's number.
int exit_code(const Outcome& outcome);

/// "exited with code 7", "was killed by SIGSEGV (signal 11, core dumped)".
std::string describe(const Outcome& outcome);

/// "SIGTERM", "SIGRTMIN+3", or "signal 99".
std::string signal_name(int signal);

}  // namespace hookline
