// A data loader over any torch dataset that is read by index, which prepare() splits between ranks.
#pragma once

#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/data/batch.h"
#include "parallel/data/epoch_plan.h"

namespace hookline {

namespace detail {

/// True for a dataset that data_loader can use: it returns batches by a list of indices, and has a size.
template <class T>
concept IndexedDataset = requires(T& dataset, c10::ArrayRef<std::size_t> indices) {
  typename T::BatchType;
  typename T::BatchRequestType;
  requires std::is_same_v<typename T::BatchRequestType, c10::ArrayRef<std::size_t>>;
  // Not a stateful dataset, whose batch type is optional.
  requires !torch::data::datasets::detail::is_optional<typename T::BatchType>::value;
  dataset.get_batch(indices);
  { dataset.size() } -> std::convertible_to<std::optional<std::size_t>>;
};

}  // namespace detail

/// Iterates over a dataset in batches; each loop is one epoch:
///
///     for (auto& batch : loader) …
///
/// Batches  what the dataset's get_batch returns, except that a std::vector of torch::data::Example<> or
///          TensorExample becomes one example of stacked tensors, as Python's default_collate does it;
///          throws Error if their shapes differ
/// Order    that of shard_indices(); each loop after the first is the next epoch, shuffled anew
/// Copies   share one state, as torch's module holders do. Not synchronised.
template <class Dataset>
class DataLoader {
 public:
  /// The type of the dataset.
  using DatasetType = Dataset;
  /// What a loop gets: the dataset's batch, or one example of stacked tensors.
  using BatchType = detail::CollatedBatch<typename Dataset::BatchType>;
  class Iterator;

  /// Use hookline::data_loader. Throws Error for a dataset that is empty or does not know its size, for a
  /// batch_size below 1, and for options that leave no batch.
  DataLoader(Dataset dataset, const DataLoaderOptions& options)
      : state_(std::make_shared<State>(std::move(dataset), options)) {}

  /// Starts an epoch: the first, the one given to set_epoch(), or the one after the last. The epoch is over
  /// at its last batch, or when `break` destroys its iterator. A pass on which nothing is
  /// trained, such as a look at one batch, does not move the training loader. In a resumed run, loops over
  /// epochs that are already trained get no batches, so a program may count epochs from 0, unless it has
  /// called epoch() before its first loop.
  Iterator begin() { return Iterator(state_, state_->plan.start_epoch()); }
  /// The end of the epoch, for a range-based for.
  std::default_sentinel_t end() const { return {}; }

  /// Number of batches that this rank gets in an epoch.
  std::int64_t size() const { return state_->plan.batches(); }
  /// The current epoch, from 0, or the next one between loops. Start the epoch loop here, so that a resumed
  /// run continues in the right place: `for (auto epoch = loader.epoch(); epoch < epochs; ++epoch)`. Passes
  /// on which nothing was trained, before the first call, are not counted.
  std::int64_t epoch() const {
    state_->plan.asked_for_epoch();
    return state_->plan.epoch();
  }
  /// Makes the next loop epoch `epoch`; later loops count on from it. Throws Error for a negative epoch.
  void set_epoch(std::int64_t epoch) { state_->plan.set_epoch(epoch); }
  /// Samples that this rank has got in all epochs, those before a resume and repeated ones included.
  std::int64_t samples_consumed() const { return state_->plan.samples_consumed(); }

  /// True while the loop holds the last batch of its epoch.
  bool at_last_batch() const { return state_->plan.at_last_batch(); }

  /// Called by Accelerator::prepare(): limits the loader to the part of `rank`, in [0, world_size). Throws
  /// Error after the first loop has begun, for a rank outside of that range, and if a rank would get no
  /// batch.
  void shard(std::int64_t rank, std::int64_t world_size) { state_->plan.shard(rank, world_size); }
  /// Called by Accelerator::prepare(): sets the seed of the shuffling from the next loop on, the same on
  /// every rank; a seed in the options wins.
  void set_seed(std::uint64_t seed) { state_->plan.set_seed(seed); }
  /// Called by Accelerator::prepare(): sets the device that batches move to. Throws Error if it is not the
  /// CPU and the type of the batches cannot be moved.
  void set_device(c10::Device device) {
    if (!detail::kCanMoveBatch<BatchType> && device.type() != c10::kCPU)
      detail::throw_cannot_move_batch(device);
    state_->device = device;
  }

  /// For the Accelerator: the loader's order and position.
  std::shared_ptr<detail::EpochPlan> plan() const { return {state_, &state_->plan}; }

  /// The options that the loader was made with.
  const DataLoaderOptions& options() const { return state_->plan.options(); }
  /// The loader's dataset.
  const Dataset& dataset() const { return state_->dataset; }

 private:
  struct State {
    State(Dataset dataset_in, const DataLoaderOptions& options)
        : dataset(std::move(dataset_in)), plan(dataset.size(), options) {}

    Dataset dataset;
    detail::EpochPlan plan;
    std::optional<c10::Device> device;
  };

  std::shared_ptr<State> state_;
};

/// An input iterator over one epoch; advancing it loads the next batch. Copies share the pass, which ends
/// with the last of them. Keeps the loader's state alive.
template <class Dataset>
class DataLoader<Dataset>::Iterator {
 public:
  /// For std::input_iterator.
  using iterator_concept = std::input_iterator_tag;
  /// For std::input_iterator.
  using value_type = BatchType;
  /// For std::input_iterator.
  using difference_type = std::ptrdiff_t;

  /// Made by DataLoader::begin(); loads the first batch.
  Iterator(std::shared_ptr<State> state, detail::EpochPass pass)
      : next_(pass.first), pass_(std::make_shared<Pass>(std::move(state), std::move(pass))) {
    load();
  }

  /// The current batch. Throws Error at the end of the epoch. If the epoch was trained before the run
  /// resumed, it loads the next batch to train on instead.
  BatchType& operator*() const { return batch(); }
  /// A member of the current batch; throws as `*` does.
  BatchType* operator->() const { return &batch(); }
  /// Loads the next batch; a due checkpoint is written just before. Throws what the dataset throws.
  Iterator& operator++() {
    load();
    return *this;
  }
  /// The same; returns nothing.
  void operator++(int) { load(); }
  /// True at the end of the epoch.
  friend bool operator==(const Iterator& iterator, std::default_sentinel_t) { return !iterator.batch_; }

 private:
  struct Pass {
    Pass(std::shared_ptr<State> state_in, detail::EpochPass pass)
        : state(std::move(state_in)), number(pass.number), indices(std::move(pass.indices)) {}
    ~Pass() { state->plan.leave(number); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    std::shared_ptr<State> state;
    std::int64_t number;
    std::vector<std::size_t> indices;
  };

  BatchType& batch() const {
    if (pass_->number == 0) {
      const std::shared_ptr<State> state = pass_->state;
      detail::EpochPass pass = state->plan.start_instead_of_skipping();
      next_ = pass.first;
      pass_ = std::make_shared<Pass>(state, std::move(pass));
      load();
    }
    if (!batch_) detail::throw_no_batch();
    return *batch_;
  }

  void load() const {
    batch_.reset();
    State& state = *pass_->state;
    const c10::ArrayRef<std::size_t> batch = state.plan.batch_at(pass_->indices, next_);
    if (batch.empty()) {
      state.plan.end_epoch(pass_->number);
      return;
    }
    state.plan.before_batch(pass_->number);
    next_ += batch.size();
    batch_ = detail::collate(state.dataset.get_batch(batch), batch);
    if (state.device) detail::move_batch(*batch_, *state.device);
    state.plan.consumed(pass_->number, batch.size(), detail::BatchWatch(*batch_));
  }

  mutable std::size_t next_ = 0;
  mutable std::shared_ptr<Pass> pass_;
  mutable std::optional<BatchType> batch_;
};

/// Makes a loader over a copy of `dataset`, or over the dataset itself if it is moved in; give it to
/// prepare():
///
///     auto loader = accelerator.prepare(hookline::data_loader(dataset, {.batch_size = 64}));
///
/// Throws Error as the constructor of DataLoader does.
template <class Dataset>
auto data_loader(Dataset dataset, const DataLoaderOptions& options = {}) {
  static_assert(
      !is_torch_data_loader_v<Dataset>,
      "hookline::data_loader was given a torch data loader, which can't be split between ranks: give it the "
      "dataset that the loader was made from");
  static_assert(
      detail::IndexedDataset<Dataset> || is_torch_data_loader_v<Dataset>,
      "hookline::data_loader needs a torch dataset that is read by index (get_batch(ArrayRef<size_t>) and "
      "size()): a stateful or stream dataset decides its own order and can't be split between ranks");
  if constexpr (detail::IndexedDataset<Dataset>) return DataLoader<Dataset>(std::move(dataset), options);
}

/// True if T is a DataLoader.
template <class T>
inline constexpr bool is_data_loader_v = false;
/// True if T is a DataLoader.
template <class Dataset>
inline constexpr bool is_data_loader_v<DataLoader<Dataset>> = true;

}  // namespace hookline
