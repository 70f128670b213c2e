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

/// Where a loader is in its epochs.
struct EpochPosition {
  std::int64_t epoch = 0;
  std::int64_t batches = 0;  // of that epoch, already handed out
  std::int64_t samples_consumed = 0;
  std::int64_t passes = 0;  // loops over the loader that are done
};

/// One loop over a loader: the rank's indices in its epoch, and the first that is due.
struct EpochPass {
  std::int64_t number = 0;  // tells it from the loader's other passes; 0: skipped, and without a batch
  std::vector<std::size_t> indices;
  std::size_t first = 0;
};

/// What an Accelerator wants to know of a loader.
struct LoaderWatch {
  std::function<void()> before_batch;  // each time, before the batch is loaded
  /// The program begins its first loop after a resume, behind `passes` loops that are done, without having asked for the
  /// epoch. True: the loops that are done yield no batch when they come again.
  std::function<bool(std::int64_t passes)> skips_done_passes;
};

/// The order of a loader's samples, epoch by epoch, and the pass that is under way: it begins with start_epoch, and ends with
/// end_epoch or, if the program leaves its loop, with leave. Holds at least one batch an epoch. Not synchronised.
class EpochPlan {
 public:
  EpochPlan(std::optional<std::size_t> dataset_size, const DataLoaderOptions& options);

  void shard(std::int64_t rank, std::int64_t world_size);
  void set_seed(std::uint64_t seed);
  void set_epoch(std::int64_t epoch);

  /// Goes to the epoch that is due, or resumes the one that resume_at named.
  EpochPass start_epoch();
  /// Counts a batch that was handed out. This and the next two ignore a pass that is not the newest.
  void consumed(std::int64_t pass, std::size_t samples);
  /// The pass has come to its end.
  void end_epoch(std::int64_t pass);
  /// The last iterator of the pass is gone: called for every pass, once.
  void leave(std::int64_t pass);

  /// Where a loop resumes in another process. Of a loop that the program has left, that is the next epoch's start, or the
  /// middle for a loader that trains: it was left because training was to stop.
  EpochPosition position() const;
  /// The next loop resumes there, unless set_epoch names another epoch; a position behind the epoch's end is the next one's
  /// start. `drives`: see is_driver. `by_hand`: by load_state, in a program that knows of it.
  void resume_at(EpochPosition position, bool drives, bool by_hand);

  void watch(LoaderWatch watch) { watch_ = std::move(watch); }
  void before_batch() const {
    if (watch_.before_batch) watch_.before_batch();
  }

  /// The batch that begins at indices[next]; empty at the end. A view into `indices`.
  c10::ArrayRef<std::size_t> batch_at(const std::vector<std::size_t>& indices, std::size_t next) const;

  std::int64_t batches() const;
  /// What DataLoader::epoch() returns; `asked`: by the program, which then knows where to begin its loop.
  std::int64_t epoch() const { return is_under_way() || !next_epoch_ ? shard_.epoch : *next_epoch_; }
  void asked_for_epoch() { is_asked_ = true; }
  std::int64_t samples_consumed() const { return samples_consumed_; }
  /// Between a pass's beginning and its end.
  bool is_under_way() const { return loop_ == Loop::under_way; }
  bool at_last_batch() const { return is_under_way() && all_handed_out(); }
  const DataLoaderOptions& options() const { return options_; }

  /// Samples of the last batch in hand, and how many of all ranks' last batches are there a second time, to give each rank as
  /// many.
  std::int64_t last_batch_size() const;
  std::int64_t repeated_samples() const;

  /// Its batches are trained on. `drives`: its epochs are the training's, whose loops a program counts.
  void trains(bool drives);
  bool is_driver() const { return drives_ && !is_cycled_; }
  /// A loop was begun while an iterator of the one before was there, as in `it = loader.begin()`: the program draws from it
  /// again and again.
  bool is_cycled() const { return is_cycled_; }
  /// Passes that were skipped since the resume.
  std::int64_t skipped_passes() const { return skipped_passes_; }

 private:
  enum class Loop { none, under_way, finished, left };  // the newest pass

  void check_not_without_batches(const ShardOptions& shard) const;
  bool all_handed_out() const { return batches_consumed_ == batches(); }
  bool skips_this_pass();

  DataLoaderOptions options_;
  ShardOptions shard_;
  std::int64_t dataset_size_ = 0;
  std::int64_t samples_consumed_ = 0;
  std::int64_t batches_consumed_ = 0;       // of the newest pass
  std::int64_t batches_to_skip_ = 0;        // of the next one
  std::int64_t passes_ = 0;                 // begun, with those before a resume
  std::int64_t newest_ = 0;                 // pass
  std::int64_t iterated_ = 0;               // passes of which there is an iterator
  std::optional<std::int64_t> next_epoch_;  // given by set_epoch or resume_at since the last pass began
  std::int64_t passes_to_skip_ = 0, skipped_passes_ = 0;
  Loop loop_ = Loop::none;
  bool started_ = false, trains_ = false, drives_ = false, is_cycled_ = false;
  bool is_asked_ = false;    // by the program, for the epoch, since the resume
  bool is_resumed_ = false;  // and no pass has begun since
  LoaderWatch watch_;
};

}  // namespace detail
}  // namespace hookline
