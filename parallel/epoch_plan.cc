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
  if (is_resumed_ && next_epoch_) {
    // A program that names the epochs of its loops: those before the resumed one are done.
    if (epoch < *next_epoch_ && passes_to_skip_ > 0) return;
    passes_to_skip_ = 0;
  }
  if (!next_epoch_ || epoch != *next_epoch_) batches_to_skip_ = 0;
  if (loop_ == Loop::left) loop_ = Loop::finished;
  next_epoch_ = epoch;
}

bool EpochPlan::skips_this_pass() {
  if (passes_to_skip_ > 0 && skipped_passes_ == 0 && is_resumed_) {
    const bool skips = !is_asked_ && watch_.skips_done_passes && watch_.skips_done_passes(passes_to_skip_);
    if (!skips) passes_to_skip_ = 0;
  }
  if (passes_to_skip_ == 0) return false;
  --passes_to_skip_;
  ++skipped_passes_;
  return true;
}

EpochPass EpochPlan::start_epoch() {
  started_ = true;
  if (skips_this_pass()) return {};
  if (iterated_ > 0) is_cycled_ = true;
  if (next_epoch_) {
    shard_.epoch = *next_epoch_;
  } else if (loop_ != Loop::none) {
    ++shard_.epoch;
  }
  next_epoch_.reset();
  is_resumed_ = false;
  loop_ = Loop::under_way;
  batches_consumed_ = std::exchange(batches_to_skip_, 0);
  ++passes_;
  ++iterated_;
  const std::vector<std::int64_t> indices = shard_indices(dataset_size_, shard_);
  return {++newest_,
          {indices.begin(), indices.end()},
          static_cast<std::size_t>(batches_consumed_ * options_.batch_size)};
}

void EpochPlan::consumed(std::int64_t pass, std::size_t samples) {
  samples_consumed_ += static_cast<std::int64_t>(samples);
  if (pass == newest_) ++batches_consumed_;
}

void EpochPlan::end_epoch(std::int64_t pass) {
  if (pass == newest_ && is_under_way()) loop_ = Loop::finished;
}

void EpochPlan::leave(std::int64_t pass) {
  if (pass == 0) return;
  --iterated_;
  if (pass == newest_ && is_under_way()) loop_ = Loop::left;
}

EpochPosition EpochPlan::position() const {
  const bool is_in_the_middle = is_under_way() || (loop_ == Loop::left && trains_);
  if (is_in_the_middle && !all_handed_out())
    return {shard_.epoch, batches_consumed_, samples_consumed_, passes_ - 1};
  const bool follows = loop_ != Loop::none && !next_epoch_;
  return {next_epoch_.value_or(shard_.epoch + (follows ? 1 : 0)), batches_to_skip_, samples_consumed_,
          passes_};
}

void EpochPlan::resume_at(EpochPosition position, bool drives, bool by_hand) {
  if (position.batches >= batches()) {
    ++position.epoch;
    ++position.passes;
    position.batches = 0;
  }
  // A loader that this process has looped over before goes back, and its program's loop with it.
  const bool is_first = passes_ == 0 || is_resumed_;
  next_epoch_ = position.epoch;
  batches_to_skip_ = position.batches;
  batches_consumed_ = 0;
  samples_consumed_ = position.samples_consumed;
  passes_ = position.passes;
  passes_to_skip_ = is_first && drives && !by_hand ? position.passes : 0;
  drives_ = trains_ = drives;
  loop_ = Loop::none;
  is_resumed_ = true;
  is_asked_ = false;
}

void EpochPlan::trains(bool drives) {
  trains_ = true;
  drives_ = drives_ || drives;
}

std::int64_t EpochPlan::last_batch_size() const {
  const std::int64_t samples = shard_size(dataset_size_, shard_);
  return std::min(options_.batch_size, samples - (batches() - 1) * options_.batch_size);
}

std::int64_t EpochPlan::repeated_samples() const {
  const std::int64_t samples = shard_size(dataset_size_, shard_);
  if ((batches() - 1) * options_.batch_size + last_batch_size() < samples) return 0;  // they are dropped
  return std::max<std::int64_t>(0, samples * shard_.world_size - dataset_size_);
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
