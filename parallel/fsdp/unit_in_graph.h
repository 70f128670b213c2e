// Connects a unit of a sharded model to its module's forward and to autograd's backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/fsdp/find_units.h"
#include "parallel/fsdp/fsdp.h"
#include "parallel/fsdp/fsdp_unit.h"
#include "parallel/fsdp/sharded_unit.h"
#include "torch_versions/autograd_node.h"

namespace hookline {

/// A backward may run nested backward passes, as reentrant activation checkpointing does, which recomputes
/// parts of the forward. A recomputed unit may get gradients several times in one backward, in rounds: the
/// first round is sent as soon as it is complete, all further rounds together at the end.
class Fsdp::Unit : public detail::AroundUnit, public std::enable_shared_from_this<Unit> {
 public:
  Unit(const std::shared_ptr<Fsdp>& fsdp, ShardedUnit unit);

  void take_inputs(const std::vector<at::Tensor>& inputs, bool are_all) override;
  void before_forward() override;
  void after_forward(const std::vector<at::Tensor*>& outputs) override { end_forward(outputs); }
  /// True if a backward may follow.
  bool end_forward(const std::vector<at::Tensor*>& outputs);
  void after_failed_forward() noexcept override;
  void explain_failure() const override;
  std::string_view needs_outputs() const override { return "a unit of a sharded model needs"; }

  /// Acts before and after each parameter's gradient is put in its place.
  void watch_gradients(const Accumulators& accumulators);

  void before_backward();
  /// No more gradients come of this round.
  void finish_gradients(Fsdp& fsdp);
  /// Ready for the next backward of the same forward.
  void end_backward(World& world);
  /// Clears the last forward's bookkeeping, before the next forward.
  void forget_forward();

  ShardedUnit parameters;
  const std::size_t position;  // in units_
  const bool is_root;
  bool takes_part = false;                  // in the backward of the last forward
  bool is_done = false;                     // with a round of gradients, in the backward under way
  std::vector<at::Tensor> gradients;        // to be averaged
  std::vector<at::Tensor> later_gradients;  // of further rounds

 private:
  enum class Outer { not_begun, open, over };

  std::shared_ptr<Fsdp> live_fsdp() const;
  void expect_no_parameter_among(const std::vector<at::Tensor*>& outputs, const Fsdp& fsdp) const;
  void watch(const at::Tensor& output);
  void gradient_came(std::size_t flat, std::size_t index);
  void end_inner_backward(int task);
  void finish_round_if_over(Fsdp& fsdp);
  void input_has_gradient();
  void release_if_over(Fsdp& fsdp);

  std::weak_ptr<Fsdp> fsdp_;
  std::vector<torch_versions::NodePtr> accumulators_;
  Outer outer_ = Outer::not_begun;     // its part in the backward under way itself
  std::size_t missing_gradients_ = 0;  // of that part
  std::vector<int> inner_;             // nested backwards that it takes part in
  bool was_whole_before_ = false;      // the forward under way, which a backward runs
  std::int64_t inputs_ = 0, missing_inputs_ = 0;
  bool inputs_are_known_ = true;  // and have hooks
};

}  // namespace hookline
