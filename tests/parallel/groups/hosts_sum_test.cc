// Sums over ranks on several hosts: through shared memory within each host, and over links between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/count_text.h"
#include "parallel/world/world.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::run_ranks_on_hosts;

using HostOfRank = std::vector<int>;

at::Tensor values_of(int rank, std::int64_t elements, at::ScalarType dtype) {
  const at::Tensor values =
      torch::randn({elements}, at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank) + 1)) * 100;
  return values.to(dtype);
}

at::Tensor sum_of(const std::vector<at::Tensor>& addends) {
  const at::ScalarType dtype = addends[0].scalar_type();
  const bool is_half = dtype == at::kHalf || dtype == at::kBFloat16;
  at::Tensor sum = is_half ? addends[0].to(at::kFloat) : addends[0].clone();
  for (std::size_t i = 1; i < addends.size(); ++i) sum = sum + addends[i].to(sum.scalar_type());
  return sum.to(dtype);
}

/// Sums the ranks of each host in order, then the hosts in the order of their first ranks.
at::Tensor expected_sum(const HostOfRank& host_of, std::int64_t elements, at::ScalarType dtype) {
  std::vector<int> order;
  std::map<int, std::vector<at::Tensor>> by_host;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    if (!by_host.contains(host_of[rank])) order.push_back(host_of[rank]);
    by_host[host_of[rank]].push_back(values_of(static_cast<int>(rank), elements, dtype));
  }
  std::vector<at::Tensor> sums;
  for (const int host : order) sums.push_back(sum_of(by_host[host]));
  return sum_of(sums);
}

c10::intrusive_ptr<c10d::Work> start_sum(World& world, at::Tensor tensor) {
  std::vector<at::Tensor> in_place{std::move(tensor)};
  return world.group()->allreduce(in_place);
}

class HostsSum : public ::testing::TestWithParam<HostOfRank> {};

TEST_P(HostsSum, HasTheSameBitsOnAllRanksWhereverAnElementLies) {
  const HostOfRank& host_of = GetParam();
  run_ranks_on_hosts(host_of, [&](const std::shared_ptr<World>& world) {
    EXPECT_TRUE(world->uses_shared_memory());
    for (const at::ScalarType dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte, at::kChar}) {
      for (const std::int64_t elements : {0, 1, 33, 5'003, 200'003}) {
        const at::Tensor values = values_of(world->rank(), elements, dtype);
        world->wait(start_sum(*world, values), "a sum");
        EXPECT_TRUE(values.equal(expected_sum(host_of, elements, dtype)))
            << dtype << ", " << elements << " elements, rank " << world->rank();
      }
    }
  });
}

TEST_P(HostsSum, SupportsManyInFlight) {
  const HostOfRank& host_of = GetParam();
  run_ranks_on_hosts(host_of, [&](const std::shared_ptr<World>& world) {
    std::vector<at::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 40; ++i) {
      tensors.push_back(values_of(world->rank(), 1 + i * i * 200, i % 2 == 0 ? at::kFloat : at::kHalf));
      works.push_back(start_sum(*world, tensors.back()));
    }
    for (const auto& work : works) world->wait(work, "a sum");
    for (const at::Tensor& tensor : tensors)
      EXPECT_TRUE(tensor.equal(expected_sum(host_of, tensor.numel(), tensor.scalar_type())));
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostsSum,
                         ::testing::Values(HostOfRank{0, 1}, HostOfRank{0, 0, 1, 1}, HostOfRank{0, 1, 0, 1},
                                           HostOfRank{0, 1, 1}, HostOfRank{0, 1, 2}, HostOfRank{0, 0, 0, 1},
                                           HostOfRank{0, 0, 1, 1, 1, 2}, HostOfRank{0, 1, 2, 3, 4},
                                           HostOfRank{0, 0, 1, 1, 2, 2}),
                         [](const auto& each) {
                           std::string name = "hosts";
                           for (const int host : each.param) name += "_" + std::to_string(host);
                           return name;
                         });

TEST(HostsOfARun, NameTheirTransport) {
  run_ranks_on_hosts({0, 0, 1, 1}, [](const std::shared_ptr<World>& world) {
    EXPECT_EQ(world->backend_name(), "shared memory and Gloo");
    EXPECT_EQ(world->layout().hosts, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
    EXPECT_EQ(world->layout().local_rank, world->rank() % 2);
  });
  run_ranks_on_hosts({0, 1},
                     [](const std::shared_ptr<World>& world) { EXPECT_EQ(world->backend_name(), "Gloo"); });
}

TEST(HostsOfARun, LeaveOtherReductionsToGloo) {
  run_ranks_on_hosts({0, 0, 1, 1}, [](const std::shared_ptr<World>& world) {
    const int rank = world->rank();
    std::vector<at::Tensor> largest{torch::tensor({rank, 5 - rank})};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    world->wait(world->group()->allreduce(largest, options), "a maximum");
    EXPECT_TRUE(largest[0].equal(torch::tensor({3, 5})));
    const auto parts = world->all_gather(torch::full({3}, rank));
    EXPECT_TRUE(parts[3].equal(torch::full({3}, 3)));
  });
}

// Most ranks hold no part of a small array, and none of an empty one; they still compare sizes.
TEST(HostsOfARun, RefuseSmallArraysThatDifferBetweenThem) {
  for (const std::int64_t smaller : {0, 1}) {
    run_ranks_on_hosts({0, 0, 1, 1}, [&](const std::shared_ptr<World>& world) {
      const at::Tensor values = torch::ones({world->rank() < 2 ? smaller : 5'000});
      try {
        world->wait(start_sum(*world, values), "a sum");
        ADD_FAILURE() << "rank " << world->rank() << " has a sum of tensors that differ";
      } catch (const std::exception& error) {
        EXPECT_THAT(
            error.what(),
            HasSubstr("the ranks sum different tensors: " + count_text(smaller, "element") + " on rank "));
      }
    });
  }
}

TEST(HostsOfARun, RefuseArraysThatDifferBetweenThem) {
  for (const HostOfRank& host_of : {HostOfRank{0, 1}, HostOfRank{0, 1, 2}, HostOfRank{0, 0, 1, 1}}) {
    run_ranks_on_hosts(host_of, [&](const std::shared_ptr<World>& world) {
      const auto own = static_cast<std::size_t>(world->rank());
      const at::Tensor values = torch::ones({host_of[own] == 0 ? 70'000 : 70'001});
      try {
        world->wait(start_sum(*world, values), "a sum");
        ADD_FAILURE() << "rank " << own << " has a sum of tensors that differ";
      } catch (const std::exception& error) {
        EXPECT_THAT(
            error.what(),
            ContainsRegex(
                "the ranks sum different tensors: 70000 elements on rank [01], 70001 on rank [123]$"));
      }
    });
  }
}

}  // namespace
}  // namespace hookline
