// Gathers over ranks on several hosts: between hosts first, then through shared memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/groups/gloo_group.h"
#include "parallel/world/world.h"
#include "tests/support/failure.h"
#include "tests/support/host_layouts.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::run_ranks_on_hosts;

/// The part that `rank` contributes to gather `number`.
at::Tensor part_of_gather(int rank, std::int64_t bytes, int number) {
  return (torch::arange(bytes) * (rank + 2) + 7 * number).remainder(251).to(at::kByte);
}

GlooGroup::Exchange gather_of(const World& world, std::int64_t bytes, int number) {
  GlooGroup::Exchange gather;
  gather.identity = {number, bytes, 0, 0};
  gather.sent = part_of_gather(world.rank(), bytes, number);
  gather.received = torch::zeros({bytes * world.size()}, at::kByte);
  gather.part_bytes = static_cast<std::size_t>(bytes);
  gather.sends_same_to_all = true;
  gather.difference = [](const std::vector<GlooGroup::Identity>& all) {
    std::string numbers;
    for (const GlooGroup::Identity& each : all) numbers += " " + std::to_string(each[0]);
    return "gathers differ:" + numbers;
  };
  return gather;
}

at::Tensor all_parts(const World& world, std::int64_t bytes, int number) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < world.size(); ++rank) parts.push_back(part_of_gather(rank, bytes, number));
  return torch::cat(parts);
}

class HostGatherOf : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(HostGatherOf, GathersAllPartsWithManyInFlight) {
  run_ranks_on_hosts(GetParam(), [](const std::shared_ptr<World>& world) {
    const std::shared_ptr<GlooGroup> group = world->make_gloo("gathers");
    std::vector<GlooGroup::Exchange> gathers;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    int number = 0;
    for (int round = 0; round < 4; ++round)
      for (const std::int64_t bytes : {1, 77, 300'003, 2'000'000}) {
        gathers.push_back(gather_of(*world, bytes, number++));
        works.push_back(group->exchange(gathers.back()));
      }
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i]->wait();
      EXPECT_TRUE(gathers[i].received.equal(
          all_parts(*world, static_cast<std::int64_t>(gathers[i].part_bytes), static_cast<int>(i))))
          << "gather " << i << " on rank " << world->rank();
    }
  });
}

TEST_P(HostGatherOf, FailsOnEveryRankIfOneStartsADifferentGather) {
  run_ranks_on_hosts(GetParam(), [](const std::shared_ptr<World>& world) {
    const std::shared_ptr<GlooGroup> group = world->make_gloo("gathers");
    const int number = world->rank() == world->size() - 1 ? 9 : 5;
    std::string wanted = "gathers differ:";
    for (int rank = 0; rank < world->size(); ++rank) wanted += rank == world->size() - 1 ? " 9" : " 5";
    const auto work = group->exchange(gather_of(*world, 1000, number));
    EXPECT_EQ(failure_of<RanksDiffer>([&] { work->wait(); }), wanted);
  });
}

// Interleaves sums of the same group, as gathering a model's units does.
TEST_P(HostGatherOf, KeepsTheOrderOfSumsAndGathers) {
  run_ranks_on_hosts(GetParam(), [](const std::shared_ptr<World>& world) {
    const std::shared_ptr<GlooGroup> group = world->make_gloo("gathers and sums");
    for (int number = 0; number < 20; ++number) {
      const GlooGroup::Exchange gather = gather_of(*world, 40'000, number);
      std::vector<at::Tensor> sum{torch::full({50'000}, world->rank() + number, at::kInt)};
      const auto gathered = group->exchange(gather);
      const auto summed = group->allreduce(sum);
      summed->wait();
      gathered->wait();
      EXPECT_TRUE(gather.received.equal(all_parts(*world, 40'000, number)));
      const int ranks = world->size();
      EXPECT_TRUE(sum[0].eq(ranks * number + ranks * (ranks - 1) / 2).all().item<bool>());
    }
  });
}

// The layouts from hosts_0_0_1 on have hosts with different numbers of ranks.
INSTANTIATE_TEST_SUITE_P(Layouts, HostGatherOf,
                         ::testing::Values(std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1},
                                           std::vector{0, 0, 1, 1, 2, 2}, std::vector{0, 0, 1},
                                           std::vector{0, 1, 1, 1, 1, 1},
                                           std::vector{0, 0, 1, 1, 1, 1, 1, 2}),
                         testing::name_of_layout);

}  // namespace
}  // namespace hookline
