#include "parallel/data/distributed_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <numeric>
#include <string>
#include "base/error.h"

namespace hookline {
namespace {

void check(std::int64_t size, const ShardOptions& options) {
  if (size < 0) throw Error("a dataset can't have " + std::to_string(size) + " samples");
  if (options.world_size < 1)
    throw Error("world_size is " + std::to_string(options.world_size) + ": it must be at least 1");
  if (options.rank < 0 || options.rank >= options.world_size)
    throw Error("rank is " + std::to_string(options.rank) + ": it must be at least 0 and below " +
                std::to_string(options.world_size) + ", the world size");
}

std::vector<std::int64_t> epoch_order(std::int64_t size, const ShardOptions& options) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  if (!options.shuffle) {
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  const auto generator =
      at::make_generator<at::CPUGeneratorImpl>(options.seed + static_cast<std::uint64_t>(options.epoch));
  const at::Tensor permutation = at::randperm(size, generator, at::TensorOptions(at::kLong));
  const auto* first = permutation.const_data_ptr<std::int64_t>();
  order.assign(first, first + size);
  return order;
}

}  // namespace

std::int64_t shard_size(std::int64_t size, const ShardOptions& options) {
  check(size, options);
  if (options.drop_last) return size / options.world_size;
  return size / options.world_size + (size % options.world_size != 0 ? 1 : 0);
}

std::vector<std::int64_t> shard_indices(std::int64_t size, const ShardOptions& options) {
  const std::int64_t count = shard_size(size, options);
  std::vector<std::int64_t> shard;
  if (count == 0) return shard;
  const std::vector<std::int64_t> order = epoch_order(size, options);
  shard.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = options.rank + i * options.world_size;
    shard.push_back(order[static_cast<std::size_t>(place % size)]);
  }
  return shard;
}

}  // namespace hookline
