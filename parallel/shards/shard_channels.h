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

/// A channel of all ranks; a collective call. Over Gloo it has a group of its own, and what lies on a GPU
/// travels through the CPU's memory. Over NCCL it uses the World's group, which runs the operations of all
/// channels in the order in which they are started, so a model needs only one channel; the ranks compare the
/// operations over Gloo at the same time.
std::shared_ptr<ShardChannel> make_shard_channel(const std::shared_ptr<World>& world, const std::string& name,
                                                 ChannelTexts texts);

}  // namespace hookline
