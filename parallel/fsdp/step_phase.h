// Where a sharded model is in a training step: pure, without tensors or autograd.
#pragma once

#include <memory>
#include <utility>

namespace hookline {

/// From the model's forward to the end of its backward its parameters are wholes, even where they are not
/// gathered; otherwise they are this rank's pieces. Not synchronised.
class StepPhase {
 public:
  bool has_wholes() const { return now_ != Now::between_steps; }
  bool is_in_backward() const { return now_ == Now::backward; }
  /// The backward under way threw: autograd has dropped what would have ended it.
  bool backward_has_thrown() const { return is_in_backward() && backward_.expired(); }
  /// Whether `task`, autograd's number of a backward, is nested in the current backward.
  bool is_inner_backward(int task) const { return is_in_backward() && task != task_; }

  /// The model's forward begins. True if a backward has used up the previous forward's graph.
  bool begin_forward() {
    if (now_ == Now::between_steps) now_ = Now::forward;
    return std::exchange(had_backward_, false);
  }
  /// Ends a step that has no backward under way. False in a backward, which ends by itself.
  bool settle() {
    if (is_in_backward()) return false;
    now_ = Now::between_steps;
    return true;
  }
  /// A backward begins, with autograd's number `task`. Whoever will end it holds the returned token: if all
  /// copies of the token are gone first, the backward threw.
  std::shared_ptr<const void> begin_backward(int task) {
    now_ = Now::backward;
    had_backward_ = true;
    task_ = task;
    const auto backward = std::make_shared<bool>(true);
    backward_ = backward;
    return backward;
  }
  void end_backward() { now_ = Now::between_steps; }

 private:
  enum class Now { between_steps, forward, backward };

  Now now_ = Now::between_steps;
  bool had_backward_ = false;  // since the last forward began
  int task_ = -1;
  std::weak_ptr<const void> backward_;
};

}  // namespace hookline
