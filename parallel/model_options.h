// The options of DDP or FSDP that a run's config asks for: pure.
#pragma once

#include <cstddef>

#include "config/schema/run_config.h"
#include "parallel/ddp/ddp.h"
#include "parallel/fsdp/fsdp.h"

namespace hookline {

/// Of the model number `model`, from 0, in the order of prepare().
DdpOptions ddp_options_of(const RunConfig& config, std::size_t model);

FsdpOptions fsdp_options_of(const FsdpConfig& config);

}  // namespace hookline
