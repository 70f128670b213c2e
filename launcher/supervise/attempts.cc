#include "launcher/supervise/attempts.h"

#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/duration_text.h"
#include "base/log.h"
#include "launcher/supervise/failure_report.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

/// The signal that cut the wait short, if one did.
std::optional<int> wait_for(std::chrono::duration<double> delay, bool warning_too, Signals& signals) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(delay);
  while (true) {
    if (const auto signal = signals.asked_to_end(warning_too)) return signal;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    std::vector<pollfd> descriptors;
    for (const int descriptor : signals.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), static_cast<int>(std::min<decltype(left)>(left, 60'000)));
  }
}

int end_for_later() {
  log::info(kEndedForLaterText);
  return kSavedForLater;
}

}  // namespace

int run_attempts(const RestartPolicy& policy, Signals& signals,
                 const std::function<JobSpec(std::int64_t attempt)>& make_job) {
  std::vector<AttemptEnd> ends;
  while (true) {
    Supervisor supervisor(make_job(static_cast<std::int64_t>(ends.size())), signals);
    const RunResult result = supervisor.run();
    const auto& failure = result.failure;
    ends.push_back({result.state,
                    failure && failure->error && failure->error->step ? failure->error->step : result.step});
    const NextAttempt next = next_attempt(policy, ends);
    if (const auto* restart = std::get_if<RestartAfter>(&next)) {
      log::warning(failure_report(*failure));
      log::info("restarting all ranks in " + seconds_text(restart->delay) + " (restart " +
                std::to_string(ends.size()) + " of " + std::to_string(policy.max_restarts) + ")");
      const std::optional<int> signal = wait_for(restart->delay, policy.keeps_checkpoints, signals);
      if (!signal) continue;
      if (signal == SIGUSR1) return end_for_later();
      log::info("stopped by " + signal_name(*signal) + " before the restart");
      return 128 + *signal;
    }
    if (std::holds_alternative<EndForLater>(next)) {
      log::warning(failure_report(*failure));
      return end_for_later();
    }
    if (const auto* end = std::get_if<GiveUp>(&next); end && !end->reason.empty())
      log::info("no restart: " + end->reason);
    if (failure && saved_for_later(policy, failure->cause.outcome))
      log::info(kSavedForLaterText);
    else if (failure && !result.is_explained)
      log::error(failure_report(*failure));
    else if (result.state.stopped_by)
      log::info("stopped by " + signal_name(*result.state.stopped_by));
    return exit_code(result.state);
  }
}

}  // namespace hookline
