#include "launcher/supervise/run_watch.h"

#include <algorithm>

#include "launcher/supervise/clock.h"

namespace hookline {

void RunWatch::exited_early(int rank, Clock::time_point now) {
  if (first_to_succeed_ || early_exit_.count() <= 0) return;
  first_to_succeed_ = rank;
  warning_due_ = now + clock_duration(early_exit_);
}

std::optional<int> RunWatch::take_early_exit(Clock::time_point now) {
  if (!warning_due_ || now < *warning_due_) return std::nullopt;
  warning_due_.reset();
  return first_to_succeed_;
}

bool RunWatch::is_stalled(std::optional<Clock::time_point> last_step, Clock::time_point now) const {
  const auto at = stalled_at(last_step);
  return at && now >= *at;
}

RunWatch::Clock::time_point RunWatch::next_look(std::optional<Clock::time_point> last_step) const {
  constexpr auto kNever = Clock::time_point::max();
  return std::min(warning_due_.value_or(kNever), stalled_at(last_step).value_or(kNever));
}

std::optional<RunWatch::Clock::time_point> RunWatch::stalled_at(
    std::optional<Clock::time_point> last_step) const {
  if (!last_step || stall_timeout_.count() <= 0) return std::nullopt;
  return *last_step + clock_duration(stall_timeout_);
}

}  // namespace hookline
