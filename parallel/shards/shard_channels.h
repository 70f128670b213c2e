// The channels of a sharded model, or optimizer, over Gloo and NCCL.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hooks/fsdp/shard_channel.h"
#include "parallel/world/world.h"

namespace hookline {

/// What an operation is called in an error: "begins a forward and gathers the parameters of 'first'".
using NameOperation = std::function<std::string(const ShardOperation&)>;

/// The error of ranks that start different operations: "`difference`: rank 0 `name`, and rank 1 `name`.
/// `rule`".
struct ChannelTexts {
  NameOperation name;
  std::string difference, rule;
};

/// A channel of all ranks; a collective call. Over Gloo with a group of its own; what lies on a GPU travels
/// through the CPU's memory. Over NCCL in the World's group, whose order is that of the
/// calls of all channels: operations are compared over Gloo, at the same time, and a model needs one channel
/// only.
std::shared_ptr<ShardChannel> make_shard_channel(const std::shared_ptr<World>& world, const std::string& name,
                                                 ChannelTexts texts);

}  // namespace hookline
