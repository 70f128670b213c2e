// Compares a sharded model and a sharded optimizer with the same training under plain DDP.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/schema/run_config.h"
#include "parallel/world/world.h"

namespace hookline {

struct ShardingCase {
  std::string name;  // "sharded model"
  RunConfig config;
};

/// [fsdp] sharding_strategy = "full_shard", and [ddp] shard_optimizer.
std::vector<ShardingCase> sharding_cases();

/// Takes a few steps with it, and as many with plain DDP. Returns a sentence on the result. Throws Error if
/// the weights differ by more than rounding, or between ranks. A collective call.
std::string try_sharding(const std::shared_ptr<World>& world, const ShardingCase& each);

}  // namespace hookline
