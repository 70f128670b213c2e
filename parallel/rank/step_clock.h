// Where the time of steps goes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace hookline {

/// Of a forward and a backward without what is exposed in them: time in which this rank, or its GPU, had nothing to do but to
/// wait for what ranks exchange. A step's time has more in it: data, evaluation, checkpoints.
struct PhaseSeconds {
  double forward = 0;  // of those that gradients were recorded in
  double backward = 0;
  double exposed_communication = 0;
  double optimizer = 0;
};

/// One of the times that a PhaseSeconds has; null: of none.
using Phase = double PhaseSeconds::*;

/// From the end of one step to that of the next; so none are of the first, which is not like the others.
struct StepSeconds {
  double median = 0, mean = 0;
  PhaseSeconds phases;  // means
};

class TimedPhase;

/// Measures a rank's steps: by the host's clock on the CPU; on a GPU, which the host runs ahead of, by events on the current
/// stream, for which nothing waits. Thread-safe: a phase is that of the thread that began it; autograd's own threads, which began
/// none, count towards the phase that began last.
/// Source: torch.cuda.Event(enable_timing=True).
class StepClock {
 public:
  explicit StepClock(c10::Device device) : device_(device) {}
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  /// Forgets all that it measured, and measures again if it was turned off.
  void reset();

  /// When whatever the device has been given so far is done.
  class Moment {
   public:
    /// As the host saw it.
    bool is_after(const Moment& other) const { return at_ > other.at_; }

   private:
    friend class StepClock;
    std::chrono::steady_clock::time_point at_{};
    std::shared_ptr<c10::Event> event_;
  };
  /// After an error of the GPU's, of which whoever uses it next is told, nothing more is measured.
  Moment now() noexcept;

  /// The time between two moments was one in which this rank only waited: exposed communication, and no part of the TimedPhase
  /// that is under way. In one of null it does not count.
  void add_exposed(const Moment& from, const Moment& to);

  /// What was added since the last step is that step's. Of several optimizers' steps, the last one's ends it.
  void end_step();
  std::int64_t steps() const;

  /// None before the second step is over. Waits for a GPU that has more to do, but no longer than `patience`: what is not over
  /// then is left out.
  std::optional<StepSeconds> measured(std::chrono::milliseconds patience = std::chrono::seconds(1));

  /// Measures nothing from now on, and counts steps.
  void turn_off();

 private:
  friend class TimedPhase;
  struct Span {
    Phase counts, instead_of;  // none: from the end of a step to that of the next
    Moment from, to;
  };
  /// A phase that has begun and not ended.
  struct UnderWay {
    std::thread::id thread;
    const TimedPhase* timed;
    Phase phase;
  };
  struct Measured {
    std::deque<Span> spans;  // that are not known to be over, and those behind them
    Moment last_end;
    std::int64_t steps = 0, known_steps = 0;
    PhaseSeconds step;  // of the first step that is not known
    PhaseSeconds sum;   // of those that are
    double sum_of_steps = 0;
    std::vector<float> seconds_of_steps;
  };
  void begin(const TimedPhase* timed, Phase phase);
  void end(const TimedPhase* timed);
  void give_up(const std::exception& error);
  bool is_over(const Span& span) const;
  double seconds(const Span& span) const;
  // With the lock held.
  std::optional<Phase> phase_of_this_thread() const;
  void add(Phase counts, Phase instead_of, const Moment& from, const Moment& to);
  void take(const Span& span);
  void collect();

  c10::Device device_;
  std::atomic<bool> is_off_ = false;
  mutable std::mutex mutex_;  // of all below
  std::vector<UnderWay> under_way_;
  Measured measured_;
};

/// Counts the time that it lives as a phase.
class TimedPhase {
 public:
  TimedPhase(StepClock& clock, Phase phase);
  ~TimedPhase();
  TimedPhase(const TimedPhase&) = delete;
  TimedPhase& operator=(const TimedPhase&) = delete;

  const StepClock::Moment& start() const { return start_; }

 private:
  StepClock& clock_;
  Phase phase_;
  StepClock::Moment start_;
};

/// Counts the time that it lives as exposed communication.
class TimedWait {
 public:
  explicit TimedWait(StepClock& clock) : clock_(clock), start_(clock.now()) {}
  ~TimedWait() { clock_.add_exposed(start_, clock_.now()); }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  StepClock& clock_;
  StepClock::Moment start_;
};

}  // namespace hookline
