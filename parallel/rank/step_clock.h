// Measures steps and the phases that they consist of.
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

/// Phase times in seconds; forward and backward exclude exposed communication. A step also contains time
/// outside these phases: data loading, evaluation, checkpoints.
struct PhaseSeconds {
  double forward = 0;                ///< Of forwards that record gradients.
  double backward = 0;               ///< Of Accelerator::backward().
  double exposed_communication = 0;  ///< In which this rank, or its GPU, only waited for communication.
  double optimizer = 0;              ///< Of the steps of prepared optimizers.
};

/// A member of PhaseSeconds; null: none of them.
using Phase = double PhaseSeconds::*;

/// Times in seconds from the end of one step to the end of the next; the first step, which is unlike the
/// others, is not included.
struct StepSeconds {
  double median = 0;    ///< Of a step; after 100,000 steps that of the first 100,000.
  double mean = 0;      ///< Of a step.
  PhaseSeconds phases;  ///< Mean time in each phase of a step.
};

class TimedPhase;

/// Measures a rank's steps: on the CPU with the host's clock; on a GPU, which the host runs ahead of, with
/// events on the current stream, without waiting for them. Thread-safe: a phase belongs to the thread that
/// began it; time on autograd's threads, which begin no phase, counts towards the phase that began last.
/// Source: torch.cuda.Event(enable_timing=True).
class StepClock {
 public:
  /// A clock for steps on `device`; a World makes its rank's.
  explicit StepClock(c10::Device device) : device_(device) {}
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  /// Forgets all that it measured, and measures again if it was turned off.
  void reset();

  /// The moment at which the device finishes all work queued so far.
  class Moment {
   public:
    /// As the host saw it.
    bool is_after(const Moment& other) const { return at_ > other.at_; }

   private:
    friend class StepClock;
    std::chrono::steady_clock::time_point at_{};
    std::shared_ptr<c10::Event> event_;
  };
  /// The current moment. After a GPU error, which the next user of the GPU gets, nothing more is measured.
  Moment now() noexcept;

  /// Counts the time between two moments as exposed communication, and subtracts it from the current
  /// TimedPhase. Ignored inside a TimedPhase of null.
  void add_exposed(const Moment& from, const Moment& to);

  /// Ends a step: times added since the previous call belong to it. With several optimizers, call it after
  /// the last one.
  void end_step();
  /// How many steps have ended since the clock was made or reset.
  std::int64_t steps() const;

  /// Sums over the steps that are known to be over, but the first.
  struct Known {
    double seconds = 0;          ///< How long they took.
    double exposed_seconds = 0;  ///< How long this rank only waited for communication in them.
  };
  /// How long the steps took that are known to be over. Does not wait for a GPU.
  Known known();

  /// The times of the steps so far; none before the second step is over. Waits for a GPU that has more to do,
  /// but no longer than `patience`: what is not over then is left out.
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
  /// Begins `phase`. Null: counts no time, and keeps waits in it from being counted. `clock` must outlive it.
  TimedPhase(StepClock& clock, Phase phase);
  ~TimedPhase();
  TimedPhase(const TimedPhase&) = delete;
  TimedPhase& operator=(const TimedPhase&) = delete;

  /// The moment at which the phase began.
  const StepClock::Moment& start() const { return start_; }

 private:
  StepClock& clock_;
  Phase phase_;
  StepClock::Moment start_;
};

/// Counts the time that it lives as exposed communication.
class TimedWait {
 public:
  /// Begins to count. The clock must outlive it.
  explicit TimedWait(StepClock& clock) : clock_(clock), start_(clock.now()) {}
  ~TimedWait() { clock_.add_exposed(start_, clock_.now()); }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  StepClock& clock_;
  StepClock::Moment start_;
};

}  // namespace hookline
