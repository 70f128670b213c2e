// A data loader that can be split between ranks after it was made, from any torch dataset with indices.
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

/// Has this type what data_loader needs: batches by a list of indices, and a size?
template <class T>
concept IndexedDataset = requires(T& dataset, c10::ArrayRef<std::size_t> indices) {
  typename T::BatchType;
  typename T::BatchRequestType;
  requires std::is_same_v<typename T::BatchRequestType, c10::ArrayRef<std::size_t>>;
  requires !torch::data::datasets::detail::is_optional<typename T::BatchType>::value;  // as a stateful one's
                                                                                       // is
  dataset.get_batch(indices);
  { dataset.size() } -> std::convertible_to<std::optional<std::size_t>>;
};

}  // namespace detail

/// Iterates over a dataset in batches, one epoch a loop:
///
///     for (auto& batch : loader) …
///
/// Batches  what the dataset's get_batch returns, except that a std::vector of torch::data::Example<> or
///          TensorExample becomes one example of stacked tensors, as Python's default_collate makes it
/// Order    distributed_sampler.h; each loop after the first is the next epoch, shuffled anew
/// Copies   share one state, as torch's module holders do. Not synchronised.
template <class Dataset>
class DataLoader {
 public:
  using DatasetType = Dataset;
  using BatchType = detail::CollatedBatch<typename Dataset::BatchType>;
  class Iterator;

  /// Throws Error: no samples, a dataset of unknown size, or options that leave no batch.
  DataLoader(Dataset dataset, const DataLoaderOptions& options)
      : state_(std::make_shared<State>(std::move(dataset), options)) {}

  /// Starts an epoch: the first, the one given to set_epoch, or the one after the last. It is the loop's place in the program
  /// until its end, or until the iterator is destroyed, as `break` does. A look at a batch of the training's loader, or a whole
  /// pass on which nothing is trained, leaves it where it was. In a run that resumes, the loops that are done yield no batch, so
  /// that a loop that counts epochs from 0 comes out right; unless the program has called epoch() before its first.
  Iterator begin() { return Iterator(state_, state_->plan.start_epoch()); }
  std::default_sentinel_t end() const { return {}; }

  /// Batches in one epoch of this rank.
  std::int64_t size() const { return state_->plan.batches(); }
  /// The epoch being iterated, or the one that the next loop will be if none has begun: where a run that resumes is to begin
  /// its loop, `for (auto epoch = loader.epoch(); epoch < epochs; ++epoch)`. Passes before the first call, if nothing was trained
  /// on them, are not counted.
  std::int64_t epoch() const {
    state_->plan.asked_for_epoch();
    return state_->plan.epoch();
  }
  /// The epoch that the next loop will be; later loops count on from it.
  void set_epoch(std::int64_t epoch) { state_->plan.set_epoch(epoch); }
  /// Samples that this rank was handed, over all epochs, repeated ones of the padding included.
  std::int64_t samples_consumed() const { return state_->plan.samples_consumed(); }

  /// True while the batch in hand is the last of its epoch.
  bool at_last_batch() const { return state_->plan.at_last_batch(); }

  /// Leaves this rank its part of each epoch. Throws Error once iteration has begun, and for a rank outside
  /// the world or a part without a batch.
  void shard(std::int64_t rank, std::int64_t world_size) { state_->plan.shard(rank, world_size); }
  /// The run's seed: holds from the next loop on unless the options name a seed. The same on every rank.
  void set_seed(std::uint64_t seed) { state_->plan.set_seed(seed); }
  /// Where batches go. Throws Error for batches that this loader can't move off the CPU.
  void set_device(c10::Device device) {
    if (!detail::kCanMoveBatch<BatchType> && device.type() != c10::kCPU)
      detail::throw_cannot_move_batch(device);
    state_->device = device;
  }

  /// For the Accelerator: shares the loader's state.
  std::shared_ptr<detail::EpochPlan> plan() const { return {state_, &state_->plan}; }

  const DataLoaderOptions& options() const { return state_->plan.options(); }
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

/// One pass over an epoch; it loads a batch when it gets there. Copies share the pass, which ends with the last of them. Keeps
/// the loader's state alive.
template <class Dataset>
class DataLoader<Dataset>::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = BatchType;
  using difference_type = std::ptrdiff_t;

  Iterator(std::shared_ptr<State> state, detail::EpochPass pass)
      : next_(pass.first), pass_(std::make_shared<Pass>(std::move(state), std::move(pass))) {
    load();
  }

  /// Throws Error if the pass has no batch left. One that was skipped, since it was done before the run resumed, loads the batch
  /// that is due.
  BatchType& operator*() const { return batch(); }
  BatchType* operator->() const { return &batch(); }
  Iterator& operator++() {
    load();
    return *this;
  }
  void operator++(int) { load(); }
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

/// A loader over a copy of `dataset` (or the dataset itself, moved in):
///
///     hookline::data_loader(dataset, {.batch_size = 64})
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

template <class T>
inline constexpr bool is_data_loader_v = false;
template <class Dataset>
inline constexpr bool is_data_loader_v<DataLoader<Dataset>> = true;

}  // namespace hookline
