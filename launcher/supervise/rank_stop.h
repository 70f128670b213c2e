// Stops the ranks: the signal that asks them to end, their grace period, and SIGKILL.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

namespace hookline {

/// Carries out the stops that `decide` asks for, and keeps their deadline.
class RankStop {
 public:
  using Clock = std::chrono::steady_clock;

  /// How signals reach the ranks.
  struct Send {
    std::function<void(int signal)> to_all;     // that ranks started, the ranks included
    std::function<void(int signal)> to_groups;  // the ranks' process groups alone
  };

  RankStop(Send send, std::chrono::duration<double> grace_period)
      : send_(std::move(send)), grace_period_(grace_period) {}

  /// Sends the signal and starts the grace period. While the stop is held, release() does that.
  void ask(int signal, Clock::time_point now);

  /// Sends SIGKILL, also while the stop is held.
  void kill(Clock::time_point now);

  /// Postpones ask() until release(), so that the stacks of stuck ranks can be written first.
  void hold() { is_held_ = true; }
  void release(Clock::time_point now);
  bool is_held() const { return is_held_; }

  /// The end of the grace period, or after kill() when to give up; max() before either.
  Clock::time_point deadline() const { return deadline_; }

 private:
  Send send_;
  std::chrono::duration<double> grace_period_;
  bool is_held_ = false;
  std::optional<int> put_off_;  // the signal that release() sends
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace hookline
