#include "launcher/supervise/next_action.h"

#include <csignal>

namespace hookline {
namespace {

Decision stop(RunState state, int signal) {
  state.phase = Phase::stopping;
  state.asked_with = signal;
  return {state, Stop{signal}};
}

Decision on(RunState state, const RankEnded& event) {
  --state.ranks_alive;
  if (state.phase != Phase::running || succeeded(event.outcome)) return {state, Nothing{}};
  state.root_cause = RootCause{event.rank, event.outcome};
  return stop(std::move(state), SIGTERM);
}

Decision on(RunState state, const SignalReceived& event) {
  if (event.signal == SIGUSR1) state.warned = true;
  if (event.signal == SIGUSR1 || event.signal == SIGUSR2) return {state, Forward{event.signal}};
  if (event.signal == SIGKILL) {
    if (!state.root_cause && !state.stopped_by) state.stopped_by = SIGKILL;
    state.phase = Phase::killing;
    return {state, Kill{}};
  }
  switch (state.phase) {
    case Phase::running:
      state.stopped_by = event.signal;
      return stop(std::move(state), event.signal);
    case Phase::stopping:
      // Only a person at a keyboard repeats a signal on purpose. `timeout` and service managers often send
      // SIGTERM or SIGHUP twice, and that must not cut the grace period short.
      if (event.signal != SIGINT && event.signal != SIGQUIT) return {state, Nothing{}};
      state.phase = Phase::killing;
      return {state, Kill{}};
    case Phase::killing:
      break;
  }
  return {state, Nothing{}};
}

Decision on(RunState state, const GraceOver&) {
  if (state.phase != Phase::stopping) return {state, Nothing{}};
  state.phase = Phase::killing;
  return {state, Kill{}};
}

Decision on(RunState state, const RankStuck& event) {
  if (state.phase != Phase::running) return {state, Nothing{}};
  state.root_cause = RootCause{event.rank, Stuck{event.seconds, event.is_waiting}};
  return stop(std::move(state), SIGTERM);
}

Decision on(RunState state, const ProcessesLeft&) {
  // Processes that a shell runs in the background ignore SIGINT and SIGQUIT.
  const bool may_not_have_heard = state.phase == Phase::stopping && state.asked_with != SIGTERM;
  if (state.phase != Phase::running && !may_not_have_heard) return {state, Nothing{}};
  return stop(std::move(state), SIGTERM);
}

}  // namespace

Decision decide(RunState state, const Event& event) {
  return std::visit([&state](const auto& happened) { return on(std::move(state), happened); }, event);
}

}  // namespace hookline
