// Where the time of steps goes, by the host's clock.
#pragma once

#include <chrono>

namespace hookline {

/// Seconds so far. Of a forward and a backward without what is exposed in them: time in which this rank had nothing to do but
/// to wait for what ranks exchange. A step's time has more in it: data, evaluation, checkpoints.
struct PhaseSeconds {
  double forward = 0;  // of those that gradients were recorded in
  double backward = 0;
  double exposed_communication = 0;
  double optimizer = 0;

  PhaseSeconds& operator+=(const PhaseSeconds& other) {
    forward += other.forward;
    backward += other.backward;
    exposed_communication += other.exposed_communication;
    optimizer += other.optimizer;
    return *this;
  }
};

/// Adds the time that it lives to a sum.
class AddsTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit AddsTime(double& seconds) : seconds_(seconds) {}
  ~AddsTime() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  AddsTime(const AddsTime&) = delete;
  AddsTime& operator=(const AddsTime&) = delete;

  Clock::time_point start() const { return start_; }

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace hookline
