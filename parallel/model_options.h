// What a run's config means for the engine of a model: pure.
#pragma once

#include <cstddef>

#include "config/schema/run_config.h"
#include "parallel/ddp/ddp.h"
#include "parallel/fsdp/sharded.h"

namespace hookline {

/// Of the model number `model`, from 0, in the order of prepare().
DdpOptions ddp_options_of(const RunConfig& config, std::size_t model);

ShardedOptions sharded_options_of(const FsdpConfig& config);

}  // namespace hookline
