// The interface of what trains one model on all ranks: DDP and FSDP.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooks/comm.h"
#include "parallel/rank/step_clock.h"

namespace hookline {

struct ChoiceReport;

/// What a model has sent so far. An all-reduce counts the bytes of its tensor; a reduce-scatter or an
/// all-gather, which is half an all-reduce, counts half of them.
struct CommunicationStats {
  std::string pipeline;              ///< "power_sgd(rank=2, start=10) in fp16"
  std::int64_t parameters = 0;       ///< Elements that get a gradient.
  std::int64_t gradient_bytes = 0;   ///< Bytes of the gradients of one step, uncompressed.
  std::int64_t steps = 0;            ///< Steps that communicated, without those before a resume.
  std::int64_t bytes_sent = 0;       ///< Bytes that this rank has handed to collectives.
  std::vector<StageBytes> stages;    ///< The same bytes by what they were for.
  std::int64_t bytes_per_step = 0;   ///< Bytes expected of a step once the hook compresses.
  std::int64_t first_full_step = 0;  ///< The step, from 0, from which the hook compresses.
  /// For hookline itself: what `comm_hook = "auto"` has chosen; null for a model with another hook.
  std::shared_ptr<const ChoiceReport> choice = nullptr;
};

/// What goes on before and after the forward of a module.
class AroundForward {
 public:
  virtual ~AroundForward() = default;

  /// Called before the module's forward; an exception keeps it from being called.
  virtual void before_forward() = 0;
  /// Called after it. `outputs`: the tensors that forward returned, which may be replaced. Undefined ones are
  /// passed over.
  virtual void after_forward(const std::vector<at::Tensor*>& outputs) = 0;
  /// Instead of after_forward, if the forward threw.
  virtual void after_failed_forward() noexcept {}
  /// Call it while handling an exception from a forward or a backward: throws an Error in its place, or does
  /// nothing.
  virtual void explain_failure() const {}
  /// What makes use of the outputs, for an error: "a sharded model needs"; empty if nothing does.
  virtual std::string_view needs_outputs() const = 0;
};

/// Makes the ranks' replicas, or shards, of a module one model. Every rank makes the same calls in the same
/// order. For hookline itself: programs use DistributedModule, which makes these calls.
class ParallelStrategy : public AroundForward {
 public:
  /// `clock`: World::step_clock().
  explicit ParallelStrategy(std::shared_ptr<StepClock> clock) : step_clock_(std::move(clock)) {}

  /// While false, backward adds up local gradients and communicates none.
  void set_sync(bool sync) { sync_ = sync; }
  /// True unless the next backward only adds up local gradients.
  bool sync() const { return sync_; }

  /// Call it after backward; see Ddp.
  virtual void release_gradient_views() {}

  /// Call it before reading or changing parameters between forwards: frees unsharded parameters that were
  /// kept for a backward.
  virtual void settle() {}
  /// Drops the gradients that are kept elsewhere than in the parameters.
  virtual void drop_gradients() {}

  /// Runs `body` with every parameter unsharded. Of the changes that `body` makes, each rank keeps those to
  /// its own shard. A collective call.
  virtual void summon_full_params(const std::function<void()>& body) { body(); }

  /// What the model has sent so far.
  virtual CommunicationStats communication_stats() const = 0;
  /// CommunicationStats::bytes_sent, but cheap.
  virtual std::int64_t bytes_sent() const = 0;

  /// The rank's step clock, which also records the time spent waiting for other ranks.
  StepClock& step_clock() const { return *step_clock_; }
  /// For a finished backward that began at `start`: the moment from which this rank only waited for
  /// communication. None if it did not wait, or if the strategy records its waiting itself.
  virtual std::optional<StepClock::Moment> only_waited_since(const StepClock::Moment& /*start*/) const {
    return std::nullopt;
  }

  /// How far from the exact average the gradients of the last step were, if that was measured. Returns each
  /// value once.
  virtual std::optional<double> take_compression_error() { return std::nullopt; }

 private:
  bool sync_ = true;
  std::shared_ptr<StepClock> step_clock_;
};

}  // namespace hookline
