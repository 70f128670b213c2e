#include "parallel/data/data_loader.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/tensor.h>
#include <torch/data/samplers/random.h>
#include <torch/data/transforms/stack.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using testing::failure_of;

/// Sample i is the pair ([i, i], i).
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  explicit Numbers(std::size_t count_in) : count(count_in) {}
  torch::data::Example<> get(std::size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {at::full({2}, value, at::kFloat), at::scalar_tensor(value, at::kLong)};
  }
  std::optional<std::size_t> size() const override { return count; }
  std::size_t count;
};

struct Growing : Numbers {
  using Numbers::Numbers;
  torch::data::Example<> get(std::size_t index) override {
    const auto length = static_cast<std::int64_t>(index) + 1;
    return {at::zeros({length, 2}), at::scalar_tensor(0, at::kLong)};
  }
};

struct Unsized : Numbers {
  Unsized() : Numbers(3) {}
  std::optional<std::size_t> size() const override { return std::nullopt; }
};

struct Word {
  std::string text;
  std::shared_ptr<int> opaque = {};
};

/// Yields batches of a type unknown to hookline.
struct Words : torch::data::datasets::BatchDataset<Words, std::vector<Word>> {
  std::vector<Word> get_batch(c10::ArrayRef<std::size_t> indices) override {
    std::vector<Word> words;
    for (const std::size_t index : indices) words.push_back({"word " + std::to_string(index)});
    return words;
  }
  std::optional<std::size_t> size() const override { return 3; }
};

struct Stream : torch::data::datasets::StreamDataset<Stream> {
  std::vector<torch::data::Example<>> get_batch(std::size_t) override { return {}; }
  std::optional<std::size_t> size() const override { return std::nullopt; }
};

template <class Loader>
std::vector<std::int64_t> targets(Loader& loader) {
  std::vector<std::int64_t> all;
  for (auto& batch : loader)
    for (std::int64_t i = 0; i < batch.target.size(0); ++i)
      all.push_back(batch.target[i].template item<std::int64_t>());
  return all;
}

TEST(DataLoader, StacksSamplesAsDefaultCollateDoes) {
  auto loader = data_loader(Numbers(5), {.batch_size = 2, .shuffle = false});
  std::vector<at::Tensor> data;
  std::vector<at::Tensor> target;
  for (auto& batch : loader) {
    data.push_back(batch.data);
    target.push_back(batch.target);
  }
  ASSERT_EQ(data.size(), 3U);
  EXPECT_TRUE(at::equal(data[1], at::tensor({2.0F, 2.0F, 3.0F, 3.0F}).view({2, 2})));
  EXPECT_TRUE(at::equal(target[1], at::tensor({2, 3}, at::kLong)));
  EXPECT_EQ(data[2].sizes(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(loader.size(), 3);
}

TEST(DataLoader, StacksSamplesWithoutATarget) {
  auto loader = data_loader(torch::data::datasets::TensorDataset(at::arange(6).view({3, 2})),
                            {.batch_size = 3, .shuffle = false});
  for (auto& batch : loader) EXPECT_TRUE(at::equal(batch.data, at::arange(6).view({3, 2})));
  EXPECT_EQ(loader.samples_consumed(), 3);
}

TEST(DataLoader, PassesThroughBatchesOfASelfCollatingDataset) {
  auto loader =
      data_loader(Numbers(4).map(torch::data::transforms::Stack<>()), {.batch_size = 4, .shuffle = false});
  EXPECT_THAT(targets(loader), ElementsAre(0, 1, 2, 3));
}

TEST(DataLoader, YieldsBatchesOfAnyType) {
  auto loader = data_loader(Words(), {.batch_size = 2, .shuffle = false});
  std::vector<std::string> texts;
  for (auto& batch : loader)
    for (const Word& word : batch) texts.push_back(word.text);
  EXPECT_THAT(texts, ElementsAre("word 0", "word 1", "word 2"));
}

TEST(DataLoader, ShufflesEachEpochReproduciblyFromTheSeed) {
  auto loader = data_loader(Numbers(50), {.batch_size = 8, .seed = 3});
  auto twin = data_loader(Numbers(50), {.batch_size = 16, .seed = 3});
  const auto first = targets(loader);
  EXPECT_EQ(loader.epoch(), 0);
  const auto second = targets(loader);
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 50U);
  EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), 50U);
  EXPECT_EQ(targets(twin), first);
  EXPECT_EQ(targets(twin), second);
}

TEST(DataLoader, FollowsTheOrderOfTheDistributedSampler) {
  auto loader = data_loader(Numbers(11), {.batch_size = 2, .seed = 5});
  loader.shard(2, 3);
  EXPECT_EQ(targets(loader), shard_indices(11, {.rank = 2, .world_size = 3, .seed = 5, .epoch = 0}));
  EXPECT_EQ(targets(loader), shard_indices(11, {.rank = 2, .world_size = 3, .seed = 5, .epoch = 1}));
  EXPECT_EQ(loader.size(), 2);
}

TEST(DataLoader, CountsEpochsFromTheFirstCallOrFromSetEpoch) {
  auto loader = data_loader(Numbers(20), {.batch_size = 5});
  for (int look = 0; look < 3; ++look) EXPECT_EQ((*loader.begin()).data.size(0), 5);
  EXPECT_EQ(loader.epoch(), 0);
  auto named = data_loader(Numbers(20), {.batch_size = 5});
  named.set_epoch(5);
  for (int look = 0; look < 3; ++look) EXPECT_EQ((*named.begin()).data.size(0), 5);
  EXPECT_EQ(named.epoch(), 5);
}

TEST(DataLoader, SetEpochHoldsForTheNextLoopAndLaterLoopsCountOnFromIt) {
  auto loader = data_loader(Numbers(20), {.batch_size = 5});
  loader.set_epoch(4);
  EXPECT_EQ(loader.epoch(), 4);
  EXPECT_EQ(targets(loader), shard_indices(20, {.epoch = 4}));
  EXPECT_EQ(targets(loader), shard_indices(20, {.epoch = 5}));
  loader.set_epoch(4);
  EXPECT_EQ(targets(loader), shard_indices(20, {.epoch = 4}));
}

TEST(DataLoader, ALoopLeftEarlyIsFollowedByTheNextEpoch) {
  auto loader = data_loader(Numbers(20), {.batch_size = 5});
  for (auto& batch : loader) {
    EXPECT_EQ(batch.data.size(0), 5);
    break;
  }
  EXPECT_EQ(loader.samples_consumed(), 5);
  EXPECT_EQ(targets(loader), shard_indices(20, {.epoch = 1}));
  EXPECT_EQ(loader.samples_consumed(), 25);
}

TEST(DataLoader, CountsTheSamplesOfItsOwnRankOverAllEpochs) {
  auto loader = data_loader(Numbers(7), {.batch_size = 2});
  loader.shard(1, 2);
  targets(loader);
  EXPECT_EQ(loader.samples_consumed(), 4);
  targets(loader);
  EXPECT_EQ(loader.samples_consumed(), 8);
}

TEST(DataLoader, TheRunsSeedAppliesUnlessTheOptionsSetOne) {
  auto follows = data_loader(Numbers(20), {.batch_size = 5});
  follows.set_seed(9);
  EXPECT_EQ(targets(follows), shard_indices(20, {.seed = 9}));
  auto insists = data_loader(Numbers(20), {.batch_size = 5, .seed = 1});
  insists.set_seed(9);
  EXPECT_EQ(targets(insists), shard_indices(20, {.seed = 1}));
}

TEST(DataLoader, DropLastDropsSamplesAndDropLastBatchDropsBatches) {
  auto samples = data_loader(Numbers(11), {.batch_size = 3, .shuffle = false, .drop_last = true});
  samples.shard(0, 2);
  EXPECT_EQ(samples.size(), 2);
  EXPECT_THAT(targets(samples), ElementsAre(0, 2, 4, 6, 8));
  auto batches = data_loader(Numbers(11), {.batch_size = 4, .shuffle = false, .drop_last_batch = true});
  batches.shard(0, 2);
  EXPECT_EQ(batches.size(), 1);
  EXPECT_THAT(targets(batches), ElementsAre(0, 2, 4, 6));
}

TEST(DataLoader, CopiesShareOneState) {
  auto loader = data_loader(Numbers(6), {.batch_size = 3, .shuffle = false});
  auto copy = loader;
  copy.shard(1, 2);
  EXPECT_THAT(targets(loader), ElementsAre(1, 3, 5));
  EXPECT_EQ(copy.samples_consumed(), 3);
}

TEST(DataLoader, AnIteratorOutlivesTheLoader) {
  auto iterator = data_loader(Numbers(4), {.batch_size = 3, .shuffle = false}).begin();
  EXPECT_EQ(iterator->data.size(0), 3);
  ++iterator;
  EXPECT_EQ(iterator->data.size(0), 1);
  ++iterator;
  EXPECT_TRUE(iterator == std::default_sentinel);
}

TEST(DataLoader, MovesBatchesToTheDevice) {
  auto loader = data_loader(Numbers(4), {.batch_size = 4});
  loader.set_device(c10::Device("meta"));
  for (auto& batch : loader) {
    EXPECT_TRUE(batch.data.is_meta());
    EXPECT_TRUE(batch.target.is_meta());
  }
}

TEST(DataLoader, RefusesToMoveBatchesOfUnknownType) {
  auto loader = data_loader(Words());
  loader.set_device(c10::kCPU);
  EXPECT_EQ(
      failure_of([&] { loader.set_device(c10::Device("meta")); }),
      "hookline::data_loader: batches of this dataset can't be moved to meta: give the batch type a member "
      "function `Batch to(torch::Device) const`");
}

TEST(DataLoader, RefusesToBeShardedOnceIterationHasBegun) {
  auto loader = data_loader(Numbers(4));
  loader.begin();
  EXPECT_EQ(
      failure_of([&] { loader.shard(0, 2); }),
      "hookline::data_loader: the loader can't be split between ranks once iteration has begun: prepare it "
      "before its first loop");
}

TEST(DataLoader, RefusesOptionsAndDatasetsThatLeaveNoBatch) {
  EXPECT_EQ(failure_of([] { data_loader(Numbers(4), {.batch_size = 0}); }),
            "hookline::data_loader: batch_size is 0: it must be at least 1");
  EXPECT_EQ(failure_of([] { data_loader(Numbers(0)); }),
            "hookline::data_loader: the dataset is empty (size() is 0): check what it was loaded from");
  EXPECT_EQ(
      failure_of([] { data_loader(Unsized()); }),
      "hookline::data_loader: the dataset does not know its size (size() is empty), so it can't be split "
      "between ranks: return the number of samples from size()");
  EXPECT_EQ(
      failure_of([] { data_loader(Numbers(3), {.drop_last = true}).shard(0, 4); }),
      "hookline::data_loader: drop_last leaves no sample of a dataset of 3 on 4 ranks: start fewer ranks, or "
      "set drop_last = false");
  EXPECT_EQ(
      failure_of([] { data_loader(Numbers(40), {.drop_last_batch = true}).shard(0, 2); }),
      "hookline::data_loader: drop_last_batch leaves no batch: a rank has 20 samples an epoch and batch_size "
      "is 32: make batch_size smaller, or set drop_last_batch = false");
  EXPECT_EQ(failure_of([] { data_loader(Numbers(3)).set_epoch(-1); }),
            "hookline::data_loader: epoch is -1: it must be at least 0");
}

TEST(DataLoader, NamesTheSamplesThatCannotBeStacked) {
  auto loader = data_loader(Growing(6), {.batch_size = 2, .shuffle = false});
  loader.shard(1, 2);
  EXPECT_EQ(
      failure_of([&] { loader.begin(); }),
      "hookline::data_loader: samples 1 and 3 of the dataset can't be stacked: the shape of their data is "
      "[2, 2] and [4, 2]; make the shapes equal, or give the dataset a collation of its own "
      "(dataset.map(…))");
}

TEST(DataLoader, ARefusedShardLeavesTheLoaderUnchanged) {
  auto loader = data_loader(Numbers(3), {.shuffle = false, .drop_last = true});
  EXPECT_THROW(loader.shard(0, 4), Error);
  EXPECT_THROW(loader.shard(4, 4), Error);
  EXPECT_THAT(targets(loader), ElementsAre(0, 1, 2));
}

TEST(DataLoader, DistinguishesItsLoadersFromTorchs) {
  using TorchLoader = torch::data::StatelessDataLoader<Numbers, torch::data::samplers::RandomSampler>;
  static_assert(is_torch_data_loader_v<TorchLoader>);
  static_assert(is_torch_data_loader_v<std::unique_ptr<TorchLoader>>);
  static_assert(is_torch_data_loader_v<decltype(torch::data::make_data_loader(Numbers(1)))>);
  static_assert(!is_data_loader_v<std::unique_ptr<TorchLoader>>);
  static_assert(is_data_loader_v<DataLoader<Numbers>>);
  static_assert(!is_torch_data_loader_v<DataLoader<Numbers>>);
  static_assert(!detail::IndexedDataset<Stream>);
  static_assert(detail::IndexedDataset<Words>);
  SUCCEED();
}

}  // namespace
}  // namespace hookline
