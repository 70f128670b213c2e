// Optimizers of which each rank keeps and steps its part: [ddp] shard_optimizer.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/schema/run_config.h"
#include "hooks/fsdp/buffer_pool.h"
#include "hooks/fsdp/shard_channel.h"
#include "parallel/ddp/ddp.h"
#include "parallel/shards/sharded_parameters.h"
#include "parallel/world/world.h"

namespace hookline {

/// ZeRO stage 1. Every rank keeps whole parameters and gradients. During a step, the optimizer's variables
/// hold only this rank's share of both, so it keeps state for that share only. After the step, the ranks
/// gather the updated parameters.
///
/// Not synchronised; every rank makes the same calls in the same order.
/// Source: Rajbhandari et al. 2020, arXiv:1910.02054, section 5.1;
/// torch.distributed.optim.ZeroRedundancyOptimizer, which assigns each parameter as a whole to one rank
/// instead of cutting it into shares.
class OptimizerShards {
 public:
  OptimizerShards(std::shared_ptr<World> world, std::shared_ptr<ShardedParameters> shards);

  /// Shards what `optimizers`, and those prepared later, keep of the model's parameters. A collective call.
  /// Throws Error for an optimizer that can't be sharded, and for a parameter with gaps in memory.
  void add(Ddp& ddp, const DdpConfig& config, const std::vector<torch::optim::Optimizer*>& optimizers);

  /// Runs `own`, a step of `optimizer`, on this rank's shares, and gathers the parameters. `number`: of the
  /// optimizer, from 1.
  void step(torch::optim::Optimizer& optimizer, std::int64_t number, const std::function<void()>& own);

 private:
  class Pieces;
  struct Group;
  struct Gather;

  void gather(const std::vector<const ShardedParameter*>& stepped, std::int64_t number);
  Gather start(const std::shared_ptr<const Group>& group, std::int64_t first, std::int64_t count,
               const ShardOperation& operation);
  void finish(const Gather& gather);

  std::shared_ptr<World> world_;
  std::shared_ptr<ShardedParameters> shards_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  std::shared_ptr<ShardChannel> channel_;  // null before the first model
  std::int64_t steps_ = 0;
};

}  // namespace hookline
