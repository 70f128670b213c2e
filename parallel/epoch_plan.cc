#include "parallel/epoch_plan.h"

#include <algorithm>
#include <string>

#include "hooks/error.h"

namespace hookline::detail {

using std::to_string;

EpochPlan::EpochPlan(std::optional<std::size_t> dataset_size, const DataLoaderOptions& options)
    : options_(options) {
  if (options.batch_size < 1)
    throw Error("hookline::data_loader: batch_size is " + to_string(options.batch_size) +
                ": it must be at least 1");
  if (!dataset_size)
    throw Error(
        "hookline::data_loader: the dataset does not know its size (size() is empty), so it can't be split "
        "between ranks: return the number of samples from size()");
  if (*dataset_size == 0)
    throw Error("hookline::data_loader: the dataset is empty (size() is 0): check what it was loaded from");
  dataset_size_ = static_cast<std::int64_t>(*dataset_size);
  shard_.shuffle = options.shuffle;
  shard_.drop_last = options.drop_last;
  shard_.seed = options.seed.value_or(0);
  check_not_without_batches(shard_);
}

void EpochPlan::shard(std::int64_t rank, std::int64_t world_size) {
  if (started_)
    throw Error(
        "hookline::data_loader: the loader can't be split between ranks once iteration has begun: prepare it "
        "before its first loop");
  ShardOptions shard = shard_;
  shard.rank = rank;
  shard.world_size = world_size;
  check_not_without_batches(shard);
  shard_ = shard;
}

void EpochPlan::check_not_without_batches(const ShardOptions& shard) const {
  const std::int64_t samples = shard_size(dataset_size_, shard);
  if (samples == 0)
    throw Error("hookline::data_loader: drop_last leaves no sample of a dataset of " +
                to_string(dataset_size_) + " on " + to_string(shard.world_size) +
                " ranks: start fewer ranks, or set drop_last = false");
  if (options_.drop_last_batch && samples < options_.batch_size)
    throw Error("hookline::data_loader: drop_last_batch leaves no batch: a rank has " + to_string(samples) +
                " samples an epoch and batch_size is " + to_string(options_.batch_size) +
                ": make batch_size smaller, or set drop_last_batch = false");
}

void EpochPlan::set_seed(std::uint64_t seed) {
  if (!options_.seed) shard_.seed = seed;
}

void EpochPlan::set_epoch(std::int64_t epoch) {
  if (epoch < 0)
    throw Error("hookline::data_loader: epoch is " + to_string(epoch) + ": it must be at least 0");
  if (epoch != shard_.epoch) batches_to_skip_ = 0;
  shard_.epoch = epoch;
  epoch_is_set_ = true;
}

EpochIndices EpochPlan::start_epoch() {
  if (started_ && !epoch_is_set_) ++shard_.epoch;
  started_ = true;
  in_epoch_ = true;
  epoch_is_set_ = false;
  batches_consumed_ = std::exchange(batches_to_skip_, 0);
  const std::vector<std::int64_t> indices = shard_indices(dataset_size_, shard_);
  return {{indices.begin(), indices.end()},
          static_cast<std::size_t>(batches_consumed_ * options_.batch_size)};
}

EpochPosition EpochPlan::position() const {
  if (in_epoch_ && !at_last_batch()) return {shard_.epoch, batches_consumed_, samples_consumed_};
  const bool is_next = in_epoch_ || (started_ && !epoch_is_set_);
  return {shard_.epoch + (is_next ? 1 : 0), batches_to_skip_, samples_consumed_};
}

void EpochPlan::go_on_at(EpochPosition position) {
  if (position.batches >= batches()) position = {position.epoch + 1, 0, position.samples_consumed};
  shard_.epoch = position.epoch;
  batches_to_skip_ = position.batches;
  batches_consumed_ = 0;
  samples_consumed_ = position.samples_consumed;
  in_epoch_ = false;
  epoch_is_set_ = true;
}

c10::ArrayRef<std::size_t> EpochPlan::batch_at(const std::vector<std::size_t>& indices,
                                               std::size_t next) const {
  const std::size_t full = static_cast<std::size_t>(options_.batch_size);
  const std::size_t length = std::min(full, indices.size() - next);
  if (length < full && options_.drop_last_batch) return {};
  return c10::ArrayRef<std::size_t>(indices).slice(next, length);
}

std::int64_t EpochPlan::batches() const {
  const std::int64_t samples = shard_size(dataset_size_, shard_);
  const bool keeps_part = samples % options_.batch_size != 0 && !options_.drop_last_batch;
  return samples / options_.batch_size + (keeps_part ? 1 : 0);
}

}  // namespace hookline::detail
