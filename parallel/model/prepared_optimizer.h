// An optimizer as prepare() hands it out.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/rank/step_clock.h"

namespace hookline {

namespace detail {
/// What an Accelerator does around the steps of its prepared optimizers.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  /// True if a prepared model has run a step that averages; always true on one rank.
  virtual bool averages() const = 0;
  virtual void before_step() = 0;
  /// `optimizer`: from 1, in the order of preparation.
  virtual void after_step(std::int64_t optimizer) = 0;
  virtual void after_zero_grad() = 0;
};

/// State that an Accelerator shares with what it has prepared.
struct TrainingProgress {
  bool sync_gradients = true;    // false once a body that only accumulates begins, until the next body does
  std::int64_t steps = 0;        // optimizer steps taken
  std::int64_t micro_steps = 0;  // bodies that accumulate() has run since gradients were last communicated
  std::int64_t optimizers = 0;   // prepared so far
  std::int64_t backwards = 0;    // that accelerator.backward() has run
  std::vector<std::int64_t> backwards_at_step;  // of each optimizer, at its last step
  std::shared_ptr<StepClock> step_clock = std::make_shared<StepClock>(c10::kCPU);
  std::weak_ptr<TrainingListener> listener;  // none once the Accelerator is gone
};

/// How the user's optimizer is stepped; each may be empty.
struct OptimizerStep {
  std::function<bool()> fused;  // the faster step; false if it did nothing
  /// Runs `own`, the step of prepared optimizer number `optimizer`, from 1.
  std::function<void(std::int64_t optimizer, const std::function<void()>& own)> around;
};

/// Warns, at the first step, if no gradient can have been averaged: the ranks would drift apart unnoticed.
void check_first_step(const TrainingProgress& progress);
}  // namespace detail

/// An optimizer as prepare() returns it: steps the user's optimizer and clears gradients, and does neither
/// while gradients accumulate. The user's optimizer must outlive it.
template <class Optimizer>
class PreparedOptimizer {
 public:
  /// Made by Accelerator::prepare().
  PreparedOptimizer(Optimizer& optimizer, std::shared_ptr<detail::TrainingProgress> progress,
                    detail::OptimizerStep step = {})
      : optimizer_(&optimizer),
        progress_(std::move(progress)),
        step_(std::move(step)),
        number_(++progress_->optimizers) {
    progress_->backwards_at_step.push_back(0);
  }

  /// Steps the user's optimizer and counts the step; while gradients accumulate it does nothing. Collective:
  /// sharded optimizers and checkpoints communicate here. Throws what the optimizer throws.
  void step() {
    if (!progress_->sync_gradients) return;
    if (progress_->steps == 0) detail::check_first_step(*progress_);
    const std::shared_ptr<detail::TrainingListener> listener = progress_->listener.lock();
    if (listener) listener->before_step();
    {
      const TimedPhase timed(*progress_->step_clock, &PhaseSeconds::optimizer);
      const auto own = [this] {
        if (!step_.fused || !step_.fused()) optimizer_->step();
      };
      step_.around ? step_.around(number_, own) : own();
    }
    ++progress_->steps;
    progress_->backwards_at_step[static_cast<std::size_t>(number_ - 1)] = progress_->backwards;
    if (listener) listener->after_step(number_);
  }

  /// Drops the gradients of its parameters; they are undefined afterwards. Also correct with
  /// gradient_as_bucket_view. While gradients accumulate it does nothing.
  void zero_grad() {
    if (!progress_->sync_gradients) return;
    for (auto& group : optimizer_->param_groups()) {
      for (at::Tensor& parameter : group.params()) parameter.mutable_grad().reset();
    }
    if (const auto listener = progress_->listener.lock()) listener->after_zero_grad();
  }

  /// The user's optimizer's parameter groups, for example to change the learning rate.
  auto& param_groups() { return optimizer_->param_groups(); }
  /// The user's optimizer.
  Optimizer& optimizer() { return *optimizer_; }
  /// Makes it usable as a pointer: optimizer->step().
  PreparedOptimizer* operator->() { return this; }

 private:
  Optimizer* optimizer_;
  std::shared_ptr<detail::TrainingProgress> progress_;
  detail::OptimizerStep step_;
  std::int64_t number_;
};

}  // namespace hookline
