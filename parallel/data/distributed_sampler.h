// Which samples of a dataset are a rank's: the order of Python's torch.utils.data.DistributedSampler.
#pragma once

#include <cstdint>
#include <vector>

namespace hookline {

/// How a dataset is split. The fields are the arguments of Python's DistributedSampler.
struct ShardOptions {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  bool shuffle = true;
  bool drop_last =
      false;  // drop the tail that does not divide by world_size, instead of repeating from the start
  std::uint64_t seed = 0;  // the same on every rank
  std::int64_t epoch = 0;  // with shuffle, each epoch has an order of its own
};

/// The samples each rank gets in an epoch, the same number on every rank.
/// Errors  Error: negative size, world_size below 1, rank outside [0, world_size)
std::int64_t shard_size(std::int64_t size, const ShardOptions& options);

/// The rank's indices into a dataset of `size` samples, in order.
/// Order   torch.randperm seeded seed + epoch, or 0, 1, …; then every world_size-th from `rank` on
/// Tail    filled up with the order's own start, over and over if the dataset is smaller than the world
/// Errors  as shard_size
/// Parity  torch.utils.data.DistributedSampler
std::vector<std::int64_t> shard_indices(std::int64_t size, const ShardOptions& options);

}  // namespace hookline
