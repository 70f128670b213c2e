#include "parallel/distributed_module.h"

#include "base/error.h"

namespace hookline::detail {

Ddp& ddp_of(ParallelStrategy& strategy, const torch::nn::Module& module) {
  if (auto* ddp = dynamic_cast<Ddp*>(&strategy)) return *ddp;
  throw Error(
      "the model '" + module.name() +
      "' is sharded, and DDP's hooks need whole gradients: set [fsdp] comm_hook, or sharding_strategy = "
      "\"no_shard\"");
}

}  // namespace hookline::detail
