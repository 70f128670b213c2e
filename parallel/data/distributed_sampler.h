// Which samples of a dataset are a rank's: the order of Python's torch.utils.data.DistributedSampler.
#pragma once

#include <cstdint>
#include <vector>

namespace hookline {

/// How a dataset is split, as by Python's DistributedSampler: `world_size` is its num_replicas, `epoch` the
/// argument of its set_epoch(); the other fields are constructor arguments of the same names.
struct ShardOptions {
  std::int64_t rank = 0;        ///< Whose samples, in [0, world_size).
  std::int64_t world_size = 1;  ///< Number of ranks; at least 1.
  bool shuffle = true;          ///< Shuffle each epoch; false: the order of the dataset.
  bool drop_last = false;       ///< Drop samples that an even split leaves over, instead of repeating some.
  std::uint64_t seed = 0;       ///< Seed of the shuffling; the same on every rank.
  std::int64_t epoch = 0;       ///< Which epoch; with shuffle, each has an order of its own.
};

/// Number of samples that each rank gets in an epoch from a dataset of `size` samples; the same on every
/// rank.
/// Errors  Error: negative size, world_size below 1, rank outside [0, world_size)
std::int64_t shard_size(std::int64_t size, const ShardOptions& options);

/// The rank's indices into a dataset of `size` samples, in the order in which it reads them.
/// Order   torch.randperm with seed + epoch, or 0, 1, …; the rank takes every world_size-th index, starting
///         at place `rank`
/// Tail    without drop_last, filled up from the start of the order, again and again for a dataset smaller
///         than the world size
/// Errors  as shard_size
/// Parity  torch.utils.data.DistributedSampler
std::vector<std::int64_t> shard_indices(std::int64_t size, const ShardOptions& options);

}  // namespace hookline
