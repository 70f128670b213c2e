#include "parallel/data/distributed_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
using ::testing::IsEmpty;
using Indices = std::vector<std::int64_t>;

TEST(DistributedSampler, GivesEachRankEveryNthSample) {
  EXPECT_THAT(shard_indices(6, {.rank = 0, .world_size = 2, .shuffle = false}), ElementsAre(0, 2, 4));
  EXPECT_THAT(shard_indices(6, {.rank = 1, .world_size = 2, .shuffle = false}), ElementsAre(1, 3, 5));
}

TEST(DistributedSampler, PadsTheTailFromTheStart) {
  EXPECT_THAT(shard_indices(5, {.rank = 0, .world_size = 3, .shuffle = false}), ElementsAre(0, 3));
  EXPECT_THAT(shard_indices(5, {.rank = 1, .world_size = 3, .shuffle = false}), ElementsAre(1, 4));
  EXPECT_THAT(shard_indices(5, {.rank = 2, .world_size = 3, .shuffle = false}), ElementsAre(2, 0));
}

TEST(DistributedSampler, RepeatsADatasetSmallerThanTheWorldAsOftenAsItTakes) {
  Indices first_of_rank;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    const Indices shard = shard_indices(3, {.rank = rank, .world_size = 8, .shuffle = false});
    ASSERT_EQ(shard.size(), 1U);
    first_of_rank.push_back(shard[0]);
  }
  EXPECT_THAT(first_of_rank, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
}

TEST(DistributedSampler, DropsTheTailWhenAsked) {
  EXPECT_THAT(shard_indices(5, {.rank = 0, .world_size = 3, .shuffle = false, .drop_last = true}),
              ElementsAre(0));
  EXPECT_THAT(shard_indices(5, {.rank = 2, .world_size = 3, .shuffle = false, .drop_last = true}),
              ElementsAre(2));
  EXPECT_THAT(shard_indices(2, {.rank = 0, .world_size = 3, .shuffle = false, .drop_last = true}), IsEmpty());
}

// list(DistributedSampler(range(10), num_replicas=3, rank=r, seed=7)) after set_epoch(e), torch 2.11.0.
TEST(DistributedSampler, ShufflesAsPythonDoes) {
  EXPECT_THAT(shard_indices(10, {.rank = 0, .world_size = 3, .seed = 7, .epoch = 0}),
              ElementsAre(5, 4, 9, 2));
  EXPECT_THAT(shard_indices(10, {.rank = 1, .world_size = 3, .seed = 7, .epoch = 0}),
              ElementsAre(0, 1, 6, 5));
  EXPECT_THAT(shard_indices(10, {.rank = 2, .world_size = 3, .seed = 7, .epoch = 0}),
              ElementsAre(3, 7, 8, 0));
  EXPECT_THAT(shard_indices(10, {.rank = 0, .world_size = 3, .seed = 7, .epoch = 3}),
              ElementsAre(7, 1, 9, 0));
  EXPECT_THAT(shard_indices(10, {.rank = 1, .world_size = 3, .seed = 7, .epoch = 3}),
              ElementsAre(4, 3, 8, 7));
  EXPECT_THAT(shard_indices(10, {.rank = 2, .world_size = 3, .seed = 7, .epoch = 3}),
              ElementsAre(6, 5, 2, 4));
}

TEST(DistributedSampler, EveryEpochHoldsEverySample) {
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (std::int64_t rank = 0; rank < 4; ++rank)
      for (const std::int64_t index : shard_indices(101, {.rank = rank, .world_size = 4, .epoch = epoch}))
        seen.insert(index);
    EXPECT_EQ(seen.size(), 101U);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), 100);
  }
}

TEST(DistributedSampler, AnEmptyDatasetHasEmptyShards) {
  EXPECT_THAT(shard_indices(0, {.rank = 1, .world_size = 2}), IsEmpty());
  EXPECT_EQ(shard_size(0, {.rank = 1, .world_size = 2}), 0);
}

TEST(DistributedSampler, TheSizeMatchesTheIndices) {
  for (const bool drop_last : {false, true}) {
    for (std::int64_t size = 0; size < 12; ++size) {
      for (std::int64_t world_size = 1; world_size < 6; ++world_size) {
        const ShardOptions options{.rank = world_size - 1, .world_size = world_size, .drop_last = drop_last};
        EXPECT_EQ(shard_size(size, options), static_cast<std::int64_t>(shard_indices(size, options).size()))
            << size << " samples on " << world_size << " ranks";
      }
    }
  }
}

TEST(DistributedSampler, RefusesARankOutsideTheWorld) {
  EXPECT_EQ(failure_of([] { shard_indices(5, {.rank = 2, .world_size = 2}); }),
            "rank is 2: it must be at least 0 and below 2, the world size");
  EXPECT_THAT(failure_of([] { shard_indices(5, {.rank = -1, .world_size = 2}); }),
              ::testing::StartsWith("rank is -1: it must be at least 0 "));
  EXPECT_EQ(failure_of([] { shard_indices(5, {.rank = 0, .world_size = 0}); }),
            "world_size is 0: it must be at least 1");
  EXPECT_EQ(failure_of([] { shard_size(-1, {}); }), "a dataset can't have -1 samples");
}

}  // namespace
}  // namespace hookline
