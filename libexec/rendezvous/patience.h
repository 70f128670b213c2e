// How long a silence may last before it counts as a loss. Pure: callers pass the time.
#pragma once

#include <algorithm>
#include <chrono>

namespace hookline {

/// How often a node sends a heartbeat if it is lost after `timeout` without one.
inline std::chrono::milliseconds beat_of(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kMost{2000};
  return std::min(2 * timeout / 5, kMost);
}

/// The patience with one peer, which sends something every beat_of(timeout). It grows with how late that has
/// come lately, on a busy host or over a bad link, to at most twice the timeout. Nodes may
/// therefore declare a peer lost at different times, yet close enough together to meet again (handover.h).
class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = Time::duration;

  explicit Patience(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// Something has come.
  void hear(Time now) {
    constexpr int kForgetEvery = 8;  // the worst lateness shrinks by an eighth with each heartbeat's time
    const Duration late = heard_ == Time() ? Duration::zero() : now - heard_ - beat_of(timeout_);
    if (now - forgot_ >= beat_of(timeout_)) {  // what comes between heartbeats says nothing of their lateness
      lateness_ -= lateness_ / kForgetEvery;
      forgot_ = now;
    }
    lateness_ = std::max(late, lateness_);
    heard_ = now;
  }
  /// Forgets when it was heard last, but not how late it has been.
  void begin_anew() { heard_ = Time(); }

  /// The silence after which it is lost.
  Duration limit() const {
    constexpr int kTimesLateness = 3;
    return std::min<Duration>(timeout_ + kTimesLateness * lateness_, 2 * timeout_);
  }

 private:
  std::chrono::milliseconds timeout_;
  Time heard_{};   // Time(): not since begin_anew()
  Time forgot_{};  // when lateness_ shrank last
  Duration lateness_{};
};

}  // namespace hookline
