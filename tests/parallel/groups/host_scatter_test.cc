// Scatters over ranks on several hosts: summed within each host, then between hosts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "hooks/numerics/rank_sum.h"
#include "parallel/groups/gloo_group.h"
#include "parallel/world/world.h"
#include "tests/support/failure.h"
#include "tests/support/host_layouts.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::run_ranks_on_hosts;

/// What `rank` scatters: `numel` elements for every rank.
at::Tensor scattered_by(int rank, int ranks, std::int64_t numel, at::ScalarType type) {
  const at::Tensor numbers = torch::arange(numel * ranks, at::kDouble) * 0.37 + rank * 1.7;
  return (at::sin(numbers) * 100).to(type);
}

GlooGroup::Exchange scatter_of(const GlooGroup& group, at::Tensor sent, int number) {
  const std::int64_t numel = sent.numel() / group.getSize();
  GlooGroup::Exchange scatter;
  scatter.identity = {number, numel, 0, 0};
  scatter.received = torch::zeros({group.addends(sent.scalar_type()), numel}, sent.options());
  scatter.part_bytes = static_cast<std::size_t>(numel) * sent.element_size();
  scatter.sent = std::move(sent);
  scatter.difference = [](const std::vector<GlooGroup::Identity>& all) {
    std::string numbers;
    for (const GlooGroup::Identity& each : all) numbers += " " + std::to_string(each[0]);
    return "scatters differ:" + numbers;
  };
  return scatter;
}

at::Tensor sum_of(const at::Tensor& addends) {
  const RankSum sum = rank_sum_of(addends.scalar_type());
  if (!sum) return addends.sum(0);
  at::Tensor result = torch::empty_like(addends[0]);
  std::vector<const void*> rows;
  for (std::int64_t row = 0; row < addends.size(0); ++row) rows.push_back(addends[row].const_data_ptr());
  sum(rows.data(), static_cast<int>(rows.size()), result.mutable_data_ptr(),
      static_cast<std::size_t>(result.numel()));
  return result;
}

class HostScatterOf : public ::testing::TestWithParam<std::vector<int>> {};

// With many in flight and gathers in between: no order of starting them may block the others.
TEST_P(HostScatterOf, MatchesAnAllReduceBitForBit) {
  run_ranks_on_hosts(GetParam(), [](const std::shared_ptr<World>& world) {
    const std::shared_ptr<GlooGroup> group = world->make_gloo("scatters"), other = world->make_gloo("sums");
    const int ranks = world->size();
    struct Started {
      at::Tensor received, gathered, sum;
      c10::intrusive_ptr<c10d::Work> scatter, gather;
    };
    std::vector<Started> all;
    for (int round = 0; round < 3; ++round)
      for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kInt})
        for (const std::int64_t numel : {1, 77, 100'003}) {
          const at::Tensor sent = scattered_by(world->rank(), ranks, numel, type);
          std::vector<at::Tensor> sum{sent.clone()};
          other->allreduce(sum)->wait();
          auto scatter = scatter_of(*group, sent, static_cast<int>(all.size()));
          GlooGroup::Exchange gather = scatter;
          gather.sends_same_to_all = true;
          gather.part_bytes = sizeof(int);
          gather.sent = torch::full({1}, world->rank(), at::kInt);
          gather.received = torch::zeros({ranks}, at::kInt);
          Started started{scatter.received, gather.received, sum[0], {}, {}};
          started.scatter = group->scatter(std::move(scatter), type);
          started.gather = group->exchange(std::move(gather));
          all.push_back(std::move(started));
        }
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].scatter->wait();
      all[i].gather->wait();
      EXPECT_TRUE(sum_of(all[i].received).equal(all[i].sum.view({ranks, -1})[world->rank()]))
          << "scatter " << i << " on rank " << world->rank();
      EXPECT_TRUE(all[i].gathered.equal(torch::arange(ranks, at::kInt)));
    }
  });
}

TEST_P(HostScatterOf, DeliversEveryRanksPartForTypesWithoutASum) {
  run_ranks_on_hosts(GetParam(), [](const std::shared_ptr<World>& world) {
    const std::shared_ptr<GlooGroup> group = world->make_gloo("scatters");
    EXPECT_EQ(group->addends(at::kComplexFloat), world->size());
    at::Tensor wanted = torch::zeros({world->size(), 10}, at::kComplexFloat);
    for (int rank = 0; rank < world->size(); ++rank)
      wanted[rank] =
          scattered_by(rank, world->size(), 10, at::kComplexFloat).view({world->size(), -1})[world->rank()];
    const auto scatter =
        scatter_of(*group, scattered_by(world->rank(), world->size(), 10, at::kComplexFloat), 0);
    group->scatter(scatter, at::kComplexFloat)->wait();
    EXPECT_TRUE(scatter.received.equal(wanted));
  });
}

// Tries the same size, and a different one, which the ranks of a host detect by themselves.
TEST_P(HostScatterOf, FailsOnEveryRankIfOneStartsADifferentScatter) {
  for (const std::int64_t numel : {1000, 2000})
    run_ranks_on_hosts(GetParam(), [&](const std::shared_ptr<World>& world) {
      const std::shared_ptr<GlooGroup> group = world->make_gloo("scatters");
      const bool is_other = world->rank() == world->size() - 1;
      std::string wanted = "scatters differ:";
      for (int rank = 0; rank < world->size(); ++rank) wanted += rank == world->size() - 1 ? " 9" : " 5";
      const at::Tensor sent = scattered_by(world->rank(), world->size(), is_other ? numel : 1000, at::kFloat);
      const auto work = group->scatter(scatter_of(*group, sent, is_other ? 9 : 5), at::kFloat);
      EXPECT_EQ(failure_of<RanksDiffer>([&] { work->wait(); }), wanted);
    });
}

TEST_P(HostScatterOf, FailsOnTheOtherRanksIfOneLeaves) {
  run_ranks_on_hosts(GetParam(), [](const std::shared_ptr<World>& world) {
    const std::shared_ptr<GlooGroup> group = world->make_gloo("scatters");
    if (world->rank() == 0) return;
    const auto work = group->scatter(
        scatter_of(*group, scattered_by(world->rank(), world->size(), 1000, at::kFloat), 0), at::kFloat);
    EXPECT_THROW(work->wait(), std::exception);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostScatterOf,
                         ::testing::Values(std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1},
                                           std::vector{0, 0, 1, 1, 2, 2}, std::vector{0, 0, 1},
                                           std::vector{0, 1, 1, 2, 1}),
                         testing::name_of_layout);

}  // namespace
}  // namespace hookline
