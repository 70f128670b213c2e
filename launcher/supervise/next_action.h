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
/// A signal to the launcher. SIGUSR1 and SIGUSR2 are forwarded to the ranks; SIGKILL means that the
/// launcher or its sentinel was killed; all other signals ask the launcher to stop.
struct SignalReceived {
  int signal = 0;
};
/// The grace period of ranks that were asked to stop is over.
struct GraceOver {};
/// The run stalled, and the other ranks wait for this one.
struct RankStuck {
  int rank = 0;
  double seconds = 0;       // since any rank finished a step
  bool is_waiting = false;  // it waits in a collective itself: for another host, or since calls differ
};
/// Every rank has ended, but processes that they started still run.
struct ProcessesLeft {};
using Event = std::variant<RankEnded, SignalReceived, GraceOver, RankStuck, ProcessesLeft>;

// What the supervisor does about an event. A Forward goes to the ranks' process groups; a Stop and a Kill go
// also to all other processes that the ranks started.
struct Nothing {
  bool operator==(const Nothing&) const = default;
};
struct Stop {  // send the signal, and start the grace period
  int signal = 0;
  bool operator==(const Stop&) const = default;
};
struct Forward {  // send the signal, and continue
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

/// Call it with events in the order in which they happened, since the first failure becomes the root cause.
Decision decide(RunState state, const Event& event);

}  // namespace hookline
