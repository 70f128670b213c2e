// What a supervisor does next: pure decisions, without processes, clocks or signals.
#pragma once

#include <optional>
#include <variant>

#include "launcher/process/outcome.h"

namespace hookline {

// What can happen to a run.
struct RankEnded {
  int rank = 0;
  Outcome outcome;
};
struct
    SignalReceived {  // by the launcher: SIGUSR1 and SIGUSR2 tell the ranks something, SIGKILL has taken its guard or sentinel, and
  // the others ask it to end
  int signal = 0;
};
struct GraceOver {};  // ranks that were asked to stop have had their time
struct RankStuck {    // and the others wait for it
  int rank = 0;
  double seconds = 0;       // since any rank finished a step
  bool is_waiting = false;  // for a rank of another host, or one that makes other calls
};
struct ProcessesLeft {};  // every rank has ended, but not all that they started
using Event = std::variant<RankEnded, SignalReceived, GraceOver, RankStuck, ProcessesLeft>;

// What the supervisor is to do about it: Forward goes to the ranks' process groups, Stop and Kill to all that they started
// too.
struct Nothing {
  bool operator==(const Nothing&) const = default;
};
struct Stop {  // send the signal, and start the grace period
  int signal = 0;
  bool operator==(const Stop&) const = default;
};
struct Forward {  // send the signal, and go on
  int signal = 0;
  bool operator==(const Forward&) const = default;
};
struct Kill {  // send SIGKILL
  bool operator==(const Kill&) const = default;
};
using Action = std::variant<Nothing, Stop, Forward, Kill>;

/// The rank that failed first and thereby ended the run: the others' failures follow from it, or from being
/// stopped.
struct RootCause {
  int rank = 0;
  Outcome outcome;
};

enum class Phase { running, stopping, killing };

struct RunState {
  int ranks_alive = 0;
  Phase phase = Phase::running;
  std::optional<RootCause> root_cause;
  int asked_with = 0;             // the last signal that asked the ranks to stop
  std::optional<int> stopped_by;  // the signal that asked the launcher to end, if that is why the run ended
  bool warned = false;            // by SIGUSR1, of a preemption

  bool ended() const { return ranks_alive == 0; }
};

struct Decision {
  RunState state;
  Action action;
};

/// Events are to be handed over in the order in which they happened: the root cause is the first failure.
Decision decide(RunState state, const Event& event);

/// What has become of a run that ended: the root cause's code, 128 + the signal that ended it, or 0.
int exit_code(const RunState& state);

}  // namespace hookline
