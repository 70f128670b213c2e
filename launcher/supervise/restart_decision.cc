#include "launcher/supervise/restart_decision.h"

#include <algorithm>
#include <cmath>

namespace hookline {
namespace {

constexpr double kLongestDelaySeconds = 60;
constexpr int kBadInputCode = 2;

std::string times(std::int64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

}  // namespace

bool saved_for_later(const RestartPolicy& policy, const Outcome& outcome) {
  return policy.keeps_checkpoints && outcome == Outcome(Exited{kSavedForLater});
}

NextAttempt next_attempt(const RestartPolicy& policy, const std::vector<AttemptEnd>& ends) {
  const AttemptEnd& last = ends.back();
  if (!last.state.root_cause) return Finished{};
  if (policy.max_restarts == 0 || saved_for_later(policy, last.state.root_cause->outcome)) return GiveUp{};
  const auto restarts = static_cast<std::int64_t>(ends.size()) - 1;
  if (restarts >= policy.max_restarts)
    return GiveUp{"the ranks were restarted " + times(restarts) + ", as often as max_restarts allows"};
  const Outcome& outcome = last.state.root_cause->outcome;
  if (!policy.always) {
    if (outcome == Outcome(Exited{kBadInputCode}))
      return GiveUp{
          "exit code 2 means bad input, which a restart does not cure (restart = \"always\" tries)"};
    if (ends.size() > 1 && last.step && ends[ends.size() - 2].step == last.step &&
        ends[ends.size() - 2].state.root_cause->outcome == outcome)
      return GiveUp{"the previous attempt failed in the same way at step " + std::to_string(*last.step) +
                    " (restart = \"always\" tries again)"};
  }
  if (last.state.warned && policy.keeps_checkpoints) return EndForLater{};
  const double factor = std::pow(2.0, static_cast<double>(std::min<std::int64_t>(restarts, 30)));
  return RestartAfter{std::chrono::duration<double>(
      std::min(policy.delay.count() * factor, std::max(policy.delay.count(), kLongestDelaySeconds)))};
}

}  // namespace hookline
