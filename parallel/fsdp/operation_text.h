// What the collectives of a sharded model are called in errors.
#pragma once

#include <string>

#include "hooks/fsdp/shard_channel.h"

namespace hookline {

/// A unit's name in quotes, "'encoder.0'"; "the model itself" for the root, whose name is empty.
std::string quoted_unit(const std::string& name);

/// What a rank does in it: "begins a forward and gathers the parameters of 'encoder.0'".
std::string operation_text(ShardOperation::Kind kind, const std::string& unit_name);

}  // namespace hookline
