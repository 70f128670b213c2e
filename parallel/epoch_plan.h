// What a data loader knows whatever its dataset: its options, its shard, and how far it has come.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/distributed_sampler.h"

namespace hookline {

/// How hookline::data_loader makes batches.
struct DataLoaderOptions {
  std::int64_t batch_size = 32;  // samples in a batch of one rank
  bool shuffle = true;           // a new order each epoch; the same seed gives the same orders
  bool drop_last = false;        // drop samples that don't divide by the ranks, instead of repeating some
  bool drop_last_batch = false;  // drop each epoch's last batch if it is smaller than batch_size
  std::optional<std::uint64_t> seed = {};  // of the shuffling; unset: the run's seed, or 0
};

namespace detail {

/// How far a loader has come.
struct EpochPosition {
  std::int64_t epoch = 0;
  std::int64_t batches = 0;  // of that epoch, which have been handed out
  std::int64_t samples_consumed = 0;
};

/// The rank's indices in an epoch, and the first that is due.
struct EpochIndices {
  std::vector<std::size_t> indices;
  std::size_t first = 0;
};

/// The order of a loader's samples, epoch by epoch. Holds at least one batch an epoch. Not synchronised.
class EpochPlan {
 public:
  EpochPlan(std::optional<std::size_t> dataset_size, const DataLoaderOptions& options);

  void shard(std::int64_t rank, std::int64_t world_size);
  void set_seed(std::uint64_t seed);
  void set_epoch(std::int64_t epoch);

  /// Goes to the epoch that is due, or on with the one that go_on_at named.
  EpochIndices start_epoch();
  /// Where a loop would go on that begins now.
  EpochPosition position() const;
  /// The next loop goes on there, unless set_epoch names another epoch; a position behind the epoch's end is the next one's
  /// start.
  void go_on_at(EpochPosition position);
  /// `before_batch` is called before each batch is loaded.
  void watch(std::function<void()> before_batch) { before_batch_ = std::move(before_batch); }
  void before_batch() const {
    if (before_batch_) before_batch_();
  }
  /// True between a loop's beginning and its end.
  bool in_epoch() const { return in_epoch_; }
  /// The batch that begins at indices[next]; empty at the end. A view into `indices`.
  c10::ArrayRef<std::size_t> batch_at(const std::vector<std::size_t>& indices, std::size_t next) const;
  /// Counts a batch that was handed out.
  void consumed(std::size_t samples) {
    samples_consumed_ += static_cast<std::int64_t>(samples);
    ++batches_consumed_;
  }

  std::int64_t batches() const;
  std::int64_t epoch() const { return shard_.epoch; }
  std::int64_t samples_consumed() const { return samples_consumed_; }
  bool at_last_batch() const { return batches_consumed_ == batches(); }
  /// Called when an epoch has been left behind: no batch is in hand then.
  void end_epoch() {
    batches_consumed_ = 0;
    in_epoch_ = false;
  }
  const DataLoaderOptions& options() const { return options_; }

 private:
  void check_not_without_batches(const ShardOptions& shard) const;

  DataLoaderOptions options_;
  ShardOptions shard_;
  std::int64_t dataset_size_ = 0;
  std::int64_t samples_consumed_ = 0;
  std::int64_t batches_consumed_ = 0;  // of this epoch
  std::int64_t batches_to_skip_ = 0;   // of the epoch that is due
  bool started_ = false;
  bool in_epoch_ = false;
  bool epoch_is_set_ = false;  // by set_epoch, since the last epoch began
  std::function<void()> before_batch_;
};

}  // namespace detail
}  // namespace hookline
