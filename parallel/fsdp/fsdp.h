// Fully sharded data parallel training: each rank holds a part of the model.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "parallel/fsdp/reduction_queue.h"
#include "parallel/fsdp/step_phase.h"
#include "parallel/fsdp/unit_order.h"
#include "parallel/model/parallel_strategy.h"
#include "parallel/model/prepared_parameters.h"
#include "parallel/shards/flat_parameter.h"
#include "parallel/world/world.h"

namespace hookline {

struct FoundUnit;

struct FsdpOptions {
  /// FSDP's FULL_SHARD: a unit's parameters are given back after its forward and gathered again for its
  /// backward. If not, SHARD_GRAD_OP: they stay whole in between; gradients and the optimizer's state are
  /// sharded all the same.
  bool reshard_after_forward = true;
  std::optional<at::ScalarType> wire = {};  // what gradients are cast to while they travel: float16, bfloat16
};

/// Keeps 1/W of parameters, gradients and optimizer state on each of W ranks, and gathers one unit's
/// parameters at a time.
///
/// The units are the model's FsdpUnit modules, and a root unit with all other parameters. A unit's parameters
/// are all-gathered before its forward and its backward, overlapping with the previous unit's computation if
/// units run in the order of the first step. After its backward, its gradients are reduce-scattered, on all
/// ranks in the reverse of the order in which the first forwards began. An optimizer keeps the module's
/// variables, and updates this rank's pieces of them.
///
/// Throws RunFailed, on every rank, if ranks run different units. Throws Error, on the affected rank only, if
/// a parameter was replaced or given other memory (torch::load, set_data), if a forward returns a view of a
/// parameter, or if a parameter, or a view kept of it, is used while not gathered. Outside forward and
/// Accelerator::backward, using a parameter or view that is not gathered throws a c10::Error with the same
/// text instead.
///
/// Keeps the World alive. Not synchronised.
/// Source: torch.distributed.fsdp.FullyShardedDataParallel of torch 2.11; Zhao et al. 2023, arXiv:2304.11277.
class Fsdp : public ParallelStrategy, public std::enable_shared_from_this<Fsdp> {
 public:
  /// Compares the ranks' parameters and buffers by name, shape, strides and dtype; takes rank 0's, and keeps
  /// this rank's part. Throws Error, on every rank, if the models or their units differ, if no parameter
  /// requires a gradient, or if the model is already part of a sharded model.
  static std::shared_ptr<Fsdp> make(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module,
                                    const FsdpOptions& options);
  ~Fsdp() override;

  void before_forward() override;
  void after_forward(const std::vector<at::Tensor*>& outputs) override;
  void after_failed_forward() noexcept override;
  void explain_failure() const override;
  std::string_view needs_outputs() const override { return "a sharded model needs"; }

  void settle() override;
  void drop_gradients() override;
  void summon_full_params(const std::function<void()>& body) override;
  CommunicationStats communication_stats() const override;
  std::int64_t bytes_sent() const override { return gathered_bytes_ + reductions_->bytes_sent(); }

  World& world() const { return *world_; }
  torch::nn::Module& module() const { return *module_; }
  std::vector<std::shared_ptr<const FlatParameter>> flat_parameters() const;

  /// The unsharded gradients that backward passes inside no_sync() have accumulated on this rank, by
  /// parameter name.
  std::map<std::string, at::Tensor> waiting_gradients() const;
  void set_waiting_gradients(const std::map<std::string, at::Tensor>& gradients);

 private:
  class Unit;
  struct Owner {
    const Unit* unit;
    std::string parameter;
  };

  Fsdp(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module, const FsdpOptions& options);
  void make_units();
  void make_channels(const std::vector<FoundUnit>& units);
  void expect_no_failure() const;
  void settle_after_failure() noexcept;

  void begin_forward(Unit& unit);
  void end_forward(Unit& unit);
  using Gather = ShardOperation::Kind;
  void start_gather(Unit& unit, Gather kind);
  void gather(Unit& unit, Gather kind);

  bool is_in_backward() const { return phase_.is_in_backward(); }
  /// The nested backward that is running; -1 if none.
  int inner_backward() const;
  void begin_backward();
  /// Starts the next gather of this backward, in the reverse of the order in which forwards ended. Gathers
  /// also units that this rank's backward skips, since another rank's may need them. Returns false if all
  /// gathers have started.
  bool start_next_gather();
  /// Gathers `unit`, after starting all gathers that precede it, and starts the next one ahead of time.
  void gather_for_backward(Unit& unit);
  void start_reductions();
  void end_backward();
  void forget_backward();
  std::string what(const std::string& doing, const ShardedUnit& unit) const;

  std::shared_ptr<World> world_;
  std::shared_ptr<torch::nn::Module> module_;
  PreparedParameters prepared_;
  FsdpOptions options_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  std::shared_ptr<ShardChannel>
      gathers_;  // over Gloo, scatters have a channel of their own, in another order
  std::vector<std::shared_ptr<Unit>> units_;       // the first is the root
  UnitOrder order_;                                // of positions in it
  std::unordered_map<const void*, Owner> owners_;  // of the memory of whole parameters
  std::unique_ptr<ReductionQueue> reductions_;
  StepPhase phase_;
  bool was_told_ = false;
  int number_ = 0;  // among the World's sharded models, for errors
  std::int64_t steps_ = 0;
  std::int64_t gathered_bytes_ = 0;  // sent
};

}  // namespace hookline
