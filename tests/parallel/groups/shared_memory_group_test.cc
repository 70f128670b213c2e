// Process groups of ranks on one host: what goes through shared memory, and what is left to Gloo.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "parallel/groups/shared_memory_group.h"
#include "parallel/world/world.h"
#include "support/hosts.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::Hosts;
using testing::ProcessOptions;
using testing::run_ranks;

at::Tensor values_of(int rank, std::int64_t elements, at::ScalarType dtype) {
  const at::Tensor values =
      torch::randn({elements}, at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank) + 1)) * 100;
  return values.to(dtype);
}

/// Sums in rank order; half precision is summed in float32 and rounded once.
at::Tensor sum_in_order(int ranks, std::int64_t elements, at::ScalarType dtype) {
  const bool is_half = dtype == at::kHalf || dtype == at::kBFloat16;
  at::Tensor sum = values_of(0, elements, dtype).to(is_half ? at::kFloat : dtype);
  for (int rank = 1; rank < ranks; ++rank) sum = sum + values_of(rank, elements, dtype).to(sum.scalar_type());
  return sum.to(dtype);
}

void all_reduce(World& world, at::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM) {
  std::vector<at::Tensor> in_place{std::move(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = std::move(op);
  world.wait(world.group()->allreduce(in_place, options), "a sum");
}

TEST(SharedMemoryGroup, SumsEveryTypeInTheOrderOfRanks) {
  for (const int ranks : {2, 3, 5}) {
    run_ranks(ranks, [ranks](const std::shared_ptr<World>& world) {
      EXPECT_TRUE(world->uses_shared_memory());
      EXPECT_EQ(world->backend_name(), "shared memory");
      for (const at::ScalarType dtype :
           {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte, at::kChar}) {
        for (const std::int64_t elements : {1, 33, 200'003}) {
          const at::Tensor values = values_of(world->rank(), elements, dtype);
          all_reduce(*world, values);
          EXPECT_TRUE(values.equal(sum_in_order(ranks, elements, dtype)))
              << dtype << ", " << elements << " elements, " << ranks << " ranks";
        }
      }
    });
  }
}

const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kDouble,      at::kHalf, at::kBFloat16,
                                            at::kInt,   at::kLong,        at::kByte, at::kBool,
                                            at::kShort, at::kComplexFloat};

TEST(SharedMemoryGroup, GathersAndBroadcastsEveryType) {
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, [ranks](const std::shared_ptr<World>& world) {
      for (const at::ScalarType dtype : kTypes) {
        for (const std::int64_t elements : {0, 1, 33, 200'003}) {
          const std::vector<at::Tensor> all = world->all_gather(values_of(world->rank(), elements, dtype));
          for (int rank = 0; rank < ranks; ++rank)
            EXPECT_TRUE(all[static_cast<std::size_t>(rank)].equal(values_of(rank, elements, dtype)))
                << dtype << ", " << elements << " elements of rank " << rank;
          for (int root = 0; root < ranks; ++root) {
            std::vector<at::Tensor> tensors{values_of(world->rank(), elements, dtype)};
            c10d::BroadcastOptions options;
            options.rootRank = root;
            world->wait(world->group()->broadcast(tensors, options), "a broadcast");
            EXPECT_TRUE(tensors[0].equal(values_of(root, elements, dtype))) << dtype << ", from " << root;
          }
        }
      }
    });
  }
}

TEST(SharedMemoryGroup, NamesMismatchedCollectives) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    const bool differs = world->rank() == 1;
    std::vector<at::Tensor> own{torch::zeros({differs ? 5 : 7})};
    c10d::BroadcastOptions options;
    options.rootRank = 2;
    EXPECT_EQ(failure_of<RunFailed>([&] {
                if (differs) {
                  world->all_gather(own[0]);
                } else {
                  world->wait(world->group()->broadcast(own, options), "a broadcast");
                }
              }),
              "the ranks start different collectives: rank 0 a broadcast from rank 2 of 7 elements (Float), "
              "rank 1 an all-gather of 5 elements (Float)");
  });
}

// Gloo's sums over three or more ranks depend on an element's position in the buffer.
TEST(SharedMemoryGroup, GivesTheSameBitsWhereverAnElementLies) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    const at::Tensor whole = values_of(world->rank(), 100'000, at::kFloat);
    const at::Tensor first = whole.narrow(0, 0, 77).clone(), rest = whole.narrow(0, 77, 100'000 - 77).clone();
    all_reduce(*world, whole);
    all_reduce(*world, rest);
    all_reduce(*world, first);
    EXPECT_TRUE(whole.equal(torch::cat({first, rest})));
  });
}

TEST(SharedMemoryGroup, LeavesToGlooWhatItDoesNotSum) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const int rank = world->rank();
    const at::Tensor largest = torch::tensor({rank, 5 - rank});
    all_reduce(*world, largest, c10d::ReduceOp::MAX);
    EXPECT_TRUE(largest.equal(torch::tensor({1, 5})));
    const at::Tensor strided = torch::ones({4, 4}).t();  // dense, and not contiguous
    all_reduce(*world, strided);
    EXPECT_TRUE(strided.equal(torch::full({4, 4}, 2.0f)));
    std::vector<at::Tensor> own{torch::full({3}, rank, at::kInt)};
    std::vector<std::vector<at::Tensor>> all;
    if (rank == 0) all = {{torch::zeros({3}, at::kInt), torch::zeros({3}, at::kInt)}};
    world->wait(world->group()->gather(all, own), "a gather");
    if (rank == 0) {
      EXPECT_TRUE(all[0][1].equal(torch::full({3}, 1, at::kInt)));
    }
    const at::Tensor none = torch::empty({0});
    all_reduce(*world, none);
    EXPECT_EQ(none.numel(), 0);
  });
}

TEST(SharedMemoryGroup, IsNotUsedIfGlooIsRequested) {
  Placement placement;
  placement.shared_memory = SharedMemory::never;
  run_ranks(
      2,
      [](const std::shared_ptr<World>& world) {
        EXPECT_FALSE(world->uses_shared_memory());
        EXPECT_EQ(world->backend_name(), "Gloo");
      },
      placement);
}

TEST(SharedMemoryGroup, NeedsOneHost) {
  const Hosts hosts(2);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  for (const std::string backend : {"auto", "shm"}) {
    std::vector<std::unique_ptr<testing::Process>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ProcessOptions options;
      options.arguments = {"20"};
      options.environment = {{"RANK", std::to_string(rank)},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_RANK", "0"},
                             {"MASTER_ADDR", Hosts::address(0)},
                             {"MASTER_PORT", "29400"},
                             {"OMP_NUM_THREADS", "1"},
                             {"HOOKLINE_CONFIG", std::nullopt},
                             {"HOOKLINE_LAUNCH__BACKEND", backend}};
      ranks.push_back(hosts.start(rank, STRESS_RANK_PROGRAM, options));
    }
    for (const auto& rank : ranks) {
      const testing::ProcessResult result = rank->wait();
      if (backend == "auto") {
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.out, ::testing::HasSubstr("20 steps, and all ranks are equal\n"));
        continue;
      }
      EXPECT_NE(result.exit_code, 0);
      EXPECT_THAT(result.err,
                  ::testing::HasSubstr(
                      "[launch] backend = \"shm\" needs all ranks, at most 63, on one machine, run by one "
                      "user in one network namespace; this run's are not: set backend = \"auto\" or "
                      "\"gloo\"\n"));
    }
  }
}

}  // namespace
}  // namespace hookline
