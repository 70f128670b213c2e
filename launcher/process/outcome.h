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

/// The rank did not end: the launcher gave it up because no step finished for `seconds`.
struct Stuck {
  double seconds = 0;
  bool was_waiting = false;  // for other ranks, in a collective
  bool operator==(const Stuck&) const = default;
};

using Outcome = std::variant<Exited, Signalled, Stuck>;

/// From the status that waitpid() gives for a process that ended.
Outcome outcome_of(int wait_status);

bool succeeded(const Outcome& outcome);

/// Exit code of a rank that saved a checkpoint on SIGUSR1 in order to resume later: EX_TEMPFAIL of
/// sysexits.h.
inline constexpr int kSavedForLater = 75;

/// Messages for that case, and for a run that ends on SIGUSR1 while no ranks are running.
inline constexpr const char* kSavedForLaterText =
    "the ranks saved a checkpoint on SIGUSR1 and ended: launch again, with [training] resume = "
    "\"auto\"";
inline constexpr const char* kEndedForLaterText =
    "the run ends on SIGUSR1 while no ranks train: launch again, with [training] resume = \"auto\"";

/// As a shell counts: the code itself, or 128 + the signal's number; 124, as `timeout` has it, for one that
/// is stuck.
int exit_code(const Outcome& outcome);

/// "exited with code 7", "was killed by SIGSEGV (signal 11, core dumped)", "finished no step for 60 s
/// ([launch] stall_timeout_seconds)".
std::string describe(const Outcome& outcome);

/// "SIGTERM", "SIGRTMIN+3", or "signal 99".
std::string signal_name(int signal);

}  // namespace hookline
