// Whether ranks that failed are started once more: a pure decision.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/supervise/next_action.h"

namespace hookline {

struct RestartPolicy {
  std::int64_t max_restarts = 0;
  bool always = false;                     // also after a failure that will come again
  std::chrono::duration<double> delay{1};  // before the first restart; doubles each time, up to a minute
  bool keeps_checkpoints = false;          // if so, SIGUSR1 means: save, end, be launched again later
};

/// Does this outcome mean that the rank saved a checkpoint on SIGUSR1 in order to resume later? If the run
/// keeps no checkpoints, exit code 75 has no special meaning.
bool saved_for_later(const RestartPolicy& policy, const Outcome& outcome);

/// How an attempt to run ended, as far as a restart depends on it.
struct AttemptEnd {
  RunState state;
  std::optional<std::int64_t> step;  // that the rank which failed first was at, if it reported one
};

struct Finished {  // nothing failed, or somebody asked the launcher to end
  bool operator==(const Finished&) const = default;
};
struct RestartAfter {
  std::chrono::duration<double> delay;
  bool operator==(const RestartAfter&) const = default;
};
struct EndForLater {  // with kSavedForLater: the machine is about to be taken away
  bool operator==(const EndForLater&) const = default;
};
struct GiveUp {
  std::string reason;  // empty: no restarts were asked for, or ranks saved their state for later
  bool operator==(const GiveUp&) const = default;
};
using NextAttempt = std::variant<Finished, RestartAfter, EndForLater, GiveUp>;

/// Decides what follows the latest of `ends`, which has an entry for each attempt so far. Unless
/// policy.always, two kinds of failure are not restarted: exit code 2, which means bad input, and the same
/// failure at the same step as the attempt before.
NextAttempt next_attempt(const RestartPolicy& policy, const std::vector<AttemptEnd>& ends);

}  // namespace hookline
