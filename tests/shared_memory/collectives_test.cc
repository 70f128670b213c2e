// Collectives through shared memory. Ranks are threads, or processes where one of them dies.
#include "shared_memory/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/process.h"
#include "tests/shared_memory/ranks.h"

namespace hookline {
namespace {

using ::testing::Each;
using testing::error_of;
using testing::eventually;
using testing::expected_sum;
using ::testing::HasSubstr;
using testing::kChunk;
using testing::kDirect;
using testing::keep;
using testing::kTimeout;
using ::testing::Not;
using testing::reduction_of;
using testing::run_ranks;
using testing::same_bits;
using testing::segment_for;
using testing::start;
using testing::values_of;

TEST(SharedCollectives, AddsInTheOrderOfRanksWhateverTheSize) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    run_ranks(ranks, [&](SharedCollectives& group, int rank) {
      unsigned seed = 0;
      const std::size_t direct = kDirect / static_cast<std::size_t>(ranks);
      for (const std::size_t elements :
           {std::size_t{0}, std::size_t{1}, std::size_t{7}, direct, direct + 1, direct + 5, kChunk - 1,
            kChunk, kChunk + 1, kChunk + direct, 3 * kChunk + 11, 20 * kChunk}) {
        std::vector<float> values = values_of(rank, elements, ++seed);
        start(group, values).get();
        EXPECT_TRUE(same_bits(values, expected_sum(ranks, elements, seed)))
            << elements << " elements, rank " << rank << " of " << ranks;
      }
    });
  }
}

TEST(SharedCollectives, KeepsManyInFlightInOrderWhileRanksAreHeldUp) {
  constexpr unsigned kSums = 150;
  for (const int ranks : {2, 4, 8}) {
    std::vector<std::size_t> sizes;
    std::minstd_rand shared(static_cast<unsigned>(ranks));
    for (unsigned i = 0; i < kSums; ++i) sizes.push_back(shared() % (i % 10 == 0 ? 4 * kChunk : kDirect / 8));
    run_ranks(ranks, [&](SharedCollectives& group, int rank) {
      std::minstd_rand own(static_cast<unsigned>(rank + 1));
      std::vector<std::vector<float>> values;
      std::vector<std::future<void>> sums;
      for (unsigned i = 0; i < kSums; ++i) values.push_back(values_of(rank, sizes[i], i));
      for (unsigned i = 0; i < kSums; ++i) {
        if (own() % 20 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 3000));
        sums.push_back(start(group, values[i]));
        if (own() % 10 == 0) sums[own() % sums.size()].wait();
      }
      for (unsigned i = 0; i < kSums; ++i) {
        sums[i].get();
        EXPECT_TRUE(same_bits(values[i], expected_sum(ranks, sizes[i], i)))
            << i << ", rank " << rank << " of " << ranks;
      }
      EXPECT_TRUE(eventually([&] { return group.is_idle(); }));
    });
  }
}

TEST(SharedCollectives, GiveEveryRankItsOwnOrTheSamePart) {
  for (const int ranks : {2, 3, 8}) {
    run_ranks(ranks, [&](SharedCollectives& group, int rank) {
      for (const std::size_t elements :
           {std::size_t{0}, std::size_t{1}, kChunk / 8, kChunk + 3, 5 * kChunk}) {
        for (const bool same : {true, false}) {
          const auto count = static_cast<std::size_t>(ranks);
          const std::vector<float> sent = values_of(rank, same ? elements : elements * count, 3);
          std::vector<float> received(elements * count), expected;
          for (int from = 0; from < ranks; ++from) {
            const std::vector<float> theirs = values_of(from, sent.size(), 3);
            const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(
                                                    same ? 0 : static_cast<std::size_t>(rank) * elements);
            expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(elements));
          }
          PartExchange exchange;
          exchange.sent = sent.data();
          exchange.received = received.data();
          exchange.part_bytes = elements * sizeof(float);
          exchange.sends_same_to_all = same;
          start(group, std::move(exchange)).get();
          EXPECT_TRUE(same_bits(received, expected))
              << elements << " elements, rank " << rank << " of " << ranks;
          std::vector<float> sum = values_of(rank, elements, 5);
          start(group, sum).get();
          EXPECT_TRUE(same_bits(sum, expected_sum(ranks, elements, 5))) << "between exchanges";
        }
      }
    });
  }
}

TEST(SharedCollectives, WritePartsToTheGivenAddresses) {
  for (const std::size_t elements : {std::size_t{0}, std::size_t{5}, 2 * kChunk + 3}) {
    run_ranks(3, [&](SharedCollectives& group, int rank) {
      const std::vector<float> sent = values_of(rank, elements, 3);
      std::vector<std::vector<float>> received(3, std::vector<float>(elements));
      PartExchange exchange;
      exchange.sent = sent.data();
      exchange.part_bytes = elements * sizeof(float);
      exchange.sends_same_to_all = true;
      for (auto& each : received) exchange.received_from.push_back(each.data());
      start(group, std::move(exchange)).get();
      for (int from = 0; from < 3; ++from)
        EXPECT_TRUE(same_bits(received[static_cast<std::size_t>(from)], values_of(from, elements, 3)))
            << elements << " elements from rank " << from;
    });
  }
}

TEST(SharedCollectives, BroadcastOneRanksValues) {
  for (const int ranks : {2, 3, 8}) {
    run_ranks(ranks, [&](SharedCollectives& group, int rank) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, kChunk + 3, 10 * kChunk}) {
        for (int root = 0; root < ranks; ++root) {
          std::vector<float> values = values_of(rank, elements, 3);
          PartExchange exchange;
          exchange.only_from = root;
          exchange.sent = values.data();
          exchange.received = values.data();
          exchange.part_bytes = elements * sizeof(float);
          start(group, std::move(exchange)).get();
          EXPECT_TRUE(same_bits(values, values_of(root, elements, 3)))
              << elements << " elements, rank " << rank << " of " << ranks;
        }
      }
    });
  }
}

TEST(SharedCollectives, RefuseBroadcastsFromDifferentRanks) {
  run_ranks(2, [&](SharedCollectives& group, int rank) {
    std::vector<float> values(10);
    PartExchange exchange;
    exchange.only_from = rank;
    exchange.sent = values.data();
    exchange.received = values.data();
    exchange.part_bytes = 40;
    auto work = start(group, std::move(exchange));
    EXPECT_EQ(error_of(work), "the ranks start different collectives: rank 0 and rank 1");
  });
}

TEST(SharedCollectives, DetectMismatchedIdentities) {
  for (const bool has_parts : {true, false}) {
    run_ranks(3, [&](SharedCollectives& group, int rank) {
      std::vector<float> sent(7, 1), received(21, 9);
      PartExchange exchange;
      exchange.identity = {rank == 2 ? 5 : 4, 0, 0, 0};
      exchange.sent = sent.data();
      exchange.received = received.data();
      exchange.part_bytes = has_parts ? 28 : 0;
      exchange.sends_same_to_all = true;
      auto work = start(group, std::move(exchange));
      EXPECT_EQ(error_of(work), "ranks differ: 4 4 5");
      for (int other = 0; other < 3; ++other) {
        if (other == rank) continue;
        EXPECT_EQ(received[static_cast<std::size_t>(other) * 7], 9) << "nothing is received";
      }
    });
  }
}

TEST(SharedCollectives, RefusesDifferentCollectivesAndPartsOfDifferentSizes) {
  run_ranks(2, [&](SharedCollectives& group, int rank) {
    std::vector<float> values(30);
    PartExchange exchange;
    exchange.sent = values.data();
    exchange.received = values.data() + 10;
    exchange.part_bytes = 40;
    exchange.sends_same_to_all = true;
    auto work = rank == 0 ? start(group, values) : start(group, std::move(exchange));
    EXPECT_EQ(
        error_of(work),
        "the ranks start different collectives: rank 0 a sum of 30 elements, and rank 1 an exchange of parts "
        "of 40 bytes");
  });
  run_ranks(2, [&](SharedCollectives& group, int rank) {
    std::vector<float> values(30);
    PartExchange exchange;
    exchange.sent = values.data();
    exchange.received = values.data() + 10;
    exchange.part_bytes = rank == 0 ? 40 : 36;
    exchange.sends_same_to_all = true;
    auto work = start(group, std::move(exchange));
    EXPECT_EQ(error_of(work), "the ranks exchange parts of different sizes: rank 0 and rank 1");
  });
}

// A callback after a sum on one rank must not block the other ranks.
TEST(SharedCollectives, ContinuesWhileASumsCallbackRuns) {
  std::promise<void> second_of_rank_1;
  run_ranks(2, [&](SharedCollectives& group, int rank) {
    std::vector<float> first(2 * kChunk), second(2 * kChunk), third(1);
    std::future<void> slow;
    if (rank == 0) {
      auto entered = std::make_shared<std::promise<void>>();
      slow = entered->get_future();
      group.start(reduction_of(first, [&, entered](const std::exception_ptr&) {
        second_of_rank_1.get_future().wait();
        entered->set_value();
      }));
      start(group, second).get();
      slow.get();
    } else {
      start(group, first).get();
      start(group, second).get();
      second_of_rank_1.set_value();
    }
    start(group, third).get();
  });
}

TEST(SharedCollectives, RefusesArraysOfDifferentSizesOnEveryRank) {
  run_ranks(3, [&](SharedCollectives& group, int rank) {
    std::vector<float> values(rank == 1 ? 3 * kChunk : 10);
    auto sum = start(group, values);
    EXPECT_THROW(
        {
          try {
            sum.get();
          } catch (const RanksDiffer& error) {
            EXPECT_EQ(std::string(error.what()), rank == 2 ? "the ranks sum different tensors: 196608 "
                                                             "elements on rank 1, 10 on rank 2"
                                                           : "the ranks sum different tensors: 10 elements "
                                                             "on rank 0, 196608 on rank 1");
            throw;
          }
        },
        RanksDiffer);
    auto later = start(group, values);
    EXPECT_THROW(later.get(), RanksDiffer) << "numbers can't be matched any more";
  });
}

TEST(SharedCollectives, RefusesArraysOfDifferentTypes) {
  run_ranks(2, [&](SharedCollectives& group, int rank) {
    std::vector<float> values(10);
    auto done = std::make_shared<std::promise<void>>();
    Reduction reduction =
        reduction_of(values, [done](const std::exception_ptr& error) { done->set_exception(error); });
    reduction.type = static_cast<std::uint32_t>(rank);
    group.start(std::move(reduction));
    auto sum = done->get_future();
    EXPECT_EQ(error_of(sum), "the ranks sum tensors of different types: rank 0 and rank 1");
  });
}

TEST(SharedCollectives, FailsWhereARankEndsItsGroupFirst) {
  const auto segment = segment_for(3);
  auto first = std::make_unique<SharedCollectives>(segment, 0, 3, kTimeout);
  auto second = std::make_unique<SharedCollectives>(segment, 1, 3, kTimeout);
  SharedCollectives third(segment, 2, 3, kTimeout);
  std::vector<float> values(2 * kChunk), others(2 * kChunk), last(2 * kChunk);
  auto of_first = start(*first, values), of_third = start(third, last);
  second.reset();
  EXPECT_EQ(error_of(of_first), "rank 1 has ended the process group");
  EXPECT_EQ(error_of(of_third), "rank 1 has ended the process group");
  auto later = start(*first, values);
  EXPECT_EQ(error_of(later), "rank 1 has ended the process group");
}

TEST(SharedCollectives, FailsCollectivesInFlightWhenItStops) {
  const auto segment = segment_for(2);
  SharedCollectives first(segment, 0, 2, kTimeout), second(segment, 1, 2, kTimeout);
  std::vector<float> values(kChunk);
  auto sum = start(first, values);
  EXPECT_FALSE(first.is_idle());
  first.stop();
  EXPECT_EQ(error_of(sum), "the process group has ended");
  auto later = start(first, values);
  EXPECT_EQ(error_of(later), "the process group has ended");
}

TEST(SharedCollectives, FailsAfterItsTimeout) {
  const auto segment = segment_for(2);
  SharedCollectives first(segment, 0, 2, std::chrono::seconds(1)), second(segment, 1, 2, kTimeout);
  std::vector<float> values(kChunk);
  auto sum = start(first, values);
  EXPECT_EQ(error_of(sum), "a collective took longer than 1 s");
}

TEST(SharedCollectives, MayBeDestroyedInASumsCallback) {
  const auto segment = segment_for(2);
  auto first = std::make_unique<SharedCollectives>(segment, 0, 2, kTimeout);
  SharedCollectives second(segment, 1, 2, kTimeout);
  std::vector<float> values(10), others(10);
  std::promise<void> gone;
  first->start(reduction_of(values, [&](const std::exception_ptr&) {
    first.reset();
    gone.set_value();
  }));
  start(second, others).get();
  gone.get_future().get();
  EXPECT_EQ(first, nullptr);
}

/// Forks a process that, as rank 1 of 2, sums values repeatedly until it is killed.
pid_t start_rank_1(const std::shared_ptr<SharedSegment>& segment, std::size_t elements) {
  const pid_t child = fork();
  if (child != 0) return child;
  {
    SharedCollectives group(segment, 1, 2, kTimeout);
    while (true) {
      std::vector<float> values(elements, 1);
      start(group, values).wait();
    }
  }
}

TEST(SharedCollectives, NamesARankThatWasKilled) {
  std::minstd_rand random(7);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto segment = segment_for(2);
    const pid_t child = start_rank_1(segment, 3 * kChunk);
    ASSERT_GT(child, 0);
    SharedCollectives group(segment, 0, 2, kTimeout);
    std::vector<float> values(3 * kChunk, 1);
    start(group, values).get();  // the child has started
    const auto kill_at = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 5000);
    std::string error;
    bool is_killed = false;
    while (error.empty()) {
      std::fill(values.begin(), values.end(), 1.0f);
      auto sum = start(group, values);
      if (!is_killed && std::chrono::steady_clock::now() >= kill_at) {
        kill(child, SIGKILL);
        is_killed = true;
      }
      error = error_of(sum);
      if (error.empty()) {
        EXPECT_THAT(values, Each(2.0f));
      }
    }
    EXPECT_EQ(error, "rank 1's process has ended");
    waitpid(child, nullptr, 0);
  }
}

// Rank 0 waits for rank 1, which starts nothing, and still learns that rank 2 was killed.
TEST(SharedCollectives, NamesTheKilledRankWhileWaitingForAnother) {
  const auto segment = segment_for(3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SharedCollectives group(segment, 2, 3, kTimeout);
    raise(SIGSTOP);  // its seat stays taken
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  SharedCollectives first(segment, 0, 3, kTimeout), second(segment, 1, 3, kTimeout);
  std::vector<float> values(3 * kChunk, 1), others(3 * kChunk, 1);
  auto of_first = start(first, values);  // waits for rank 1, which starts nothing, before it looks for rank 2
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(error_of(of_first), "rank 2's process has ended");
}

TEST(SharedCollectives, LeavesNoMemoryBehind) {
  const auto maps = [] {
    std::ifstream in("/proc/self/maps");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  {
    const auto segment = segment_for(2);
    EXPECT_THAT(maps(), HasSubstr("memfd:hookline"));
  }
  EXPECT_THAT(maps(), Not(HasSubstr("memfd:hookline")));
}

}  // namespace
}  // namespace hookline
