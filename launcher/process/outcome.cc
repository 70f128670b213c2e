#include "launcher/process/outcome.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "base/text/duration_text.h"

namespace hookline {
namespace {

constexpr int kTimedOut = 124;

}  // namespace

Outcome outcome_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return Signalled{WTERMSIG(wait_status), WCOREDUMP(wait_status)};
  return Exited{WEXITSTATUS(wait_status)};
}

bool succeeded(const Outcome& outcome) { return outcome == Outcome(Exited{0}); }

int exit_code(const Outcome& outcome) {
  if (const auto* signalled = std::get_if<Signalled>(&outcome)) return 128 + signalled->signal;
  if (std::holds_alternative<Stuck>(outcome)) return kTimedOut;
  return std::get<Exited>(outcome).code;
}

std::string signal_name(int signal) {
  if (signal > 0 && signal < NSIG)
    if (const char* name = sigabbrev_np(signal)) return std::string("SIG") + name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

std::string describe(const Outcome& outcome) {
  if (const auto* signalled = std::get_if<Signalled>(&outcome))
    return "was killed by " + signal_name(signalled->signal) + " (signal " +
           std::to_string(signalled->signal) + (signalled->core_dumped ? ", core dumped)" : ")");
  if (const auto* stuck = std::get_if<Stuck>(&outcome))
    return "finished no step for " + seconds_text(std::chrono::duration<double>(stuck->seconds)) +
           " ([launch] stall_timeout_seconds)";
  return "exited with code " + std::to_string(std::get<Exited>(outcome).code);
}

}  // namespace hookline
