#include "launcher/supervise/rank_stop.h"

#include <csignal>

#include "launcher/containment/sentinel.h"
#include "launcher/supervise/clock.h"

namespace hookline {

void RankStop::ask(int signal, Clock::time_point now) {
  if (is_held_) {
    put_off_ = signal;
    return;
  }
  send_.to_all(signal);
  send_.to_groups(SIGCONT);  // a rank that is stopped could not end
  deadline_ = now + clock_duration(grace_period_);
}

void RankStop::kill(Clock::time_point now) {
  put_off_.reset();
  send_.to_all(SIGKILL);
  deadline_ = now + kPatienceAfterKill;
}

void RankStop::release(Clock::time_point now) {
  is_held_ = false;
  if (const auto signal = std::exchange(put_off_, std::nullopt)) ask(*signal, now);
}

}  // namespace hookline
