// Sums across machines, whose ranks are threads here too: how a rank uses its link.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "shared_memory/collectives.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::minutes kTimeout{2};
constexpr std::size_t kChunk = SharedCollectives::kChunkBytes / sizeof(float);

void sum_floats(const void* const* parts, int count, void* out, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    float sum = static_cast<const float*>(parts[0])[i];
    for (int part = 1; part < count; ++part) sum += static_cast<const float*>(parts[part])[i];
    static_cast<float*>(out)[i] = sum;
  }
}

/// Connects the links of one rank of each machine.
class Meeting {
 public:
  explicit Meeting(int machines) : machines_(machines) {}

  /// The last machine to arrive sums the piece for all.
  void join(std::uint64_t number, int machine, SumLink::Piece piece) {
    std::vector<SumLink::Piece> whole;
    {
      const std::lock_guard lock(mutex_);
      auto& pieces = pieces_[number];
      pieces.resize(static_cast<std::size_t>(machines_));
      pieces[static_cast<std::size_t>(machine)] = std::move(piece);
      if (++arrived_[number] < machines_) return;
      whole = std::move(pieces);
      pieces_.erase(number);
    }
    std::vector<const void*> parts;
    for (const SumLink::Piece& each : whole) {
      EXPECT_EQ(each.elements, whole[0].elements);
      EXPECT_EQ(each.within, whole[0].within);
      EXPECT_EQ(each.array_elements, whole[0].array_elements);
      parts.push_back(each.data);
    }
    std::vector<float> sum(whole[0].elements);
    whole[0].sum(parts.data(), machines_, sum.data(), sum.size());
    for (SumLink::Piece& each : whole) {
      if (!sum.empty()) std::memcpy(each.data, sum.data(), sum.size() * sizeof(float));
      each.done(nullptr);
    }
  }

 private:
  const int machines_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<SumLink::Piece>> pieces_;
  std::map<std::uint64_t, int> arrived_;
};

class MeetingLink : public SumLink {
 public:
  MeetingLink(std::shared_ptr<Meeting> meeting, int machine, std::uint64_t fails_at)
      : meeting_(std::move(meeting)), machine_(machine), fails_at_(fails_at) {}
  void start(Piece piece) override {
    if (started_ == fails_at_) {
      piece.done(std::make_exception_ptr(PeerError("rank 9 is out of reach")));
    } else {
      meeting_->join(started_++, machine_, std::move(piece));
    }
  }
  void stop() override {}

 private:
  std::shared_ptr<Meeting> meeting_;
  int machine_;
  std::uint64_t started_ = 0, fails_at_;
};

constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct Rank {
  int machine, local, number;
  SharedCollectives& group;
};

/// Runs `body` for each rank of each machine, on threads. Links fail at piece number `fails_at`.
void run_machines(const std::vector<int>& ranks_of_machine, const std::function<void(const Rank&)>& body,
                  std::uint64_t fails_at = kNever) {
  const int machines = static_cast<int>(ranks_of_machine.size());
  const int links = *std::min_element(ranks_of_machine.begin(), ranks_of_machine.end());
  std::vector<std::shared_ptr<Meeting>> meetings;
  for (int link = 0; link < links; ++link) meetings.push_back(std::make_shared<Meeting>(machines));
  std::vector<std::unique_ptr<SharedCollectives>> groups;
  std::vector<std::pair<int, int>> places;
  for (int machine = 0; machine < machines; ++machine) {
    const int ranks = ranks_of_machine[static_cast<std::size_t>(machine)];
    auto segment = std::make_shared<SharedSegment>(SharedCollectives::bytes_for(ranks));
    SharedCollectives::prepare(*segment, ranks);
    const int first = static_cast<int>(groups.size());
    for (int local = 0; local < ranks; ++local) {
      groups.push_back(std::make_unique<SharedCollectives>(segment, local, ranks, kTimeout));
      places.emplace_back(machine, local);
      OtherMachines others;
      for (int i = 0; i < ranks; ++i) others.names.push_back(first + i);
      others.links = links;
      if (local < links)
        others.link =
            std::make_unique<MeetingLink>(meetings[static_cast<std::size_t>(local)], machine, fails_at);
      groups.back()->join(std::move(others));
    }
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < groups.size(); ++i)
    threads.emplace_back([&, i] {
      body({places[i].first, places[i].second, static_cast<int>(i), *groups[i]});
    });
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> values_of(int number, std::size_t elements, unsigned seed) {
  std::minstd_rand random(seed * 64 + static_cast<unsigned>(number) + 1);
  std::vector<float> values(elements);
  for (float& value : values) value = static_cast<float>(random()) * 1e-3f;
  return values;
}

std::vector<float> sum_of(const std::vector<std::vector<float>>& addends) {
  std::vector<const void*> parts;
  for (const auto& each : addends) parts.push_back(each.data());
  std::vector<float> sum(addends[0].size());
  sum_floats(parts.data(), static_cast<int>(parts.size()), sum.data(), sum.size());
  return sum;
}

/// The sum over the ranks of each machine, then over the machines.
std::vector<float> expected_sum(const std::vector<int>& ranks_of_machine, std::size_t elements,
                                unsigned seed) {
  std::vector<std::vector<float>> of_machines;
  int number = 0;
  for (const int ranks : ranks_of_machine) {
    std::vector<std::vector<float>> of_ranks;
    for (int i = 0; i < ranks; ++i) of_ranks.push_back(values_of(number++, elements, seed));
    of_machines.push_back(sum_of(of_ranks));
  }
  return sum_of(of_machines);
}

enum class Over { all_ranks, equal_machines, own_machine };

std::future<void> start(SharedCollectives& group, std::vector<float>& values, Over over = Over::all_ranks) {
  auto done = std::make_shared<std::promise<void>>();
  Reduction reduction;
  reduction.data = values.data();
  reduction.elements = values.size();
  reduction.element_bytes = sizeof(float);
  reduction.sum = sum_floats;
  reduction.is_equal_on_machine = over == Over::equal_machines;
  reduction.stays_on_machine = over == Over::own_machine;
  reduction.done = [done](const std::exception_ptr& error) {
    if (error) {
      done->set_exception(error);
    } else {
      done->set_value();
    }
  };
  group.start(std::move(reduction));
  return done->get_future();
}

TEST(Machines, SumOverTheirRanksInOneOrder) {
  for (const std::vector<int>& ranks_of_machine :
       {std::vector<int>{1, 1}, std::vector<int>{2, 2}, std::vector<int>{1, 3}, std::vector<int>{3, 2, 4}}) {
    run_machines(ranks_of_machine, [&](const Rank& rank) {
      unsigned seed = 0;
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000},
                                         kChunk - 1, kChunk + 1, 20 * kChunk + 7}) {
        std::vector<float> values = values_of(rank.number, elements, ++seed);
        start(rank.group, values).get();
        EXPECT_EQ(values, expected_sum(ranks_of_machine, elements, seed)) << elements;
      }
    });
  }
}

TEST(Machines, SumValuesSharedByTheirRanksOnce) {
  run_machines({2, 3}, [&](const Rank& rank) {
    for (const std::size_t elements : {std::size_t{3}, 3 * kChunk + 1}) {
      std::vector<float> values = values_of(rank.machine, elements, 1);
      start(rank.group, values, Over::equal_machines).get();
      EXPECT_EQ(values, sum_of({values_of(0, elements, 1), values_of(1, elements, 1)}));
    }
  });
}

TEST(Machines, InterleaveTheirOwnSumsWithSumsOverAll) {
  for (const std::vector<int>& ranks_of_machine :
       {std::vector<int>{1, 1}, std::vector<int>{2, 2}, std::vector<int>{1, 3}, std::vector<int>{3, 2, 4}}) {
    run_machines(ranks_of_machine, [&](const Rank& rank) {
      int first = 0;
      for (int machine = 0; machine < rank.machine; ++machine)
        first += ranks_of_machine[static_cast<std::size_t>(machine)];
      const auto own_sum = [&](std::size_t elements, unsigned seed) {
        std::vector<std::vector<float>> addends;
        for (int i = 0; i < ranks_of_machine[static_cast<std::size_t>(rank.machine)]; ++i)
          addends.push_back(values_of(first + i, elements, seed));
        return sum_of(addends);
      };
      unsigned seed = 0;
      for (const std::size_t elements :
           {std::size_t{0}, std::size_t{1}, std::size_t{1000}, 20 * kChunk + 7}) {
        std::vector<float> own = values_of(rank.number, elements, ++seed), all = own;
        auto of_machine = start(rank.group, own, Over::own_machine), of_all = start(rank.group, all);
        of_machine.get();
        of_all.get();
        EXPECT_EQ(own, own_sum(elements, seed)) << elements;
        EXPECT_EQ(all, expected_sum(ranks_of_machine, elements, seed)) << elements;
      }
    });
  }
}

TEST(Machines, RefuseASumOfTheirOwnRanksWhereOneSumsOverAll) {
  run_machines({2, 2}, [&](const Rank& rank) {
    std::vector<float> values(10);
    auto done = start(rank.group, values, rank.local == 0 ? Over::own_machine : Over::all_ranks);
    EXPECT_THROW(done.get(), RanksDiffer);
  });
}

TEST(Machines, SupportManySumsInFlight) {
  const std::vector<int> ranks_of_machine{2, 2};
  run_machines(ranks_of_machine, [&](const Rank& rank) {
    constexpr unsigned kSums = 60;
    std::vector<std::vector<float>> values;
    for (unsigned i = 0; i < kSums; ++i) values.push_back(values_of(rank.number, 1 + i * i * 40, i));
    std::vector<std::future<void>> sums;
    for (auto& each : values) sums.push_back(start(rank.group, each));
    for (unsigned i = 0; i < kSums; ++i) {
      sums[i].get();
      EXPECT_EQ(values[i], expected_sum(ranks_of_machine, values[i].size(), i));
    }
  });
}

TEST(Machines, FailWithTheirLinks) {
  run_machines(
      {2, 2},
      [&](const Rank& rank) {
        std::vector<float> values = values_of(rank.number, 20 * kChunk, 1);
        std::future<void> sum = start(rank.group, values);
        try {
          sum.get();
          ADD_FAILURE() << "a sum over a link that fails";
        } catch (const PeerError& error) {
          EXPECT_THAT(error.what(), HasSubstr("rank 9 is out of reach"));
        }
      },
      0);
}

/// Its first piece fails only when its second starts, and the second is done right after that, so busy ranks
/// see both at once.
class LateLink : public SumLink {
 public:
  void start(Piece piece) override {
    if (!first_) {
      first_ = std::move(piece.done);
    } else if (!is_over_) {
      is_over_ = true;
      first_(std::make_exception_ptr(PeerError("rank 9 is out of reach")));
      piece.done(nullptr);
    }
  }
  void stop() override {}

 private:
  WhenDone first_;
  bool is_over_ = false;
};

TEST(Machines, IgnorePiecesAfterOneThatFailed) {
  constexpr int kRanks = 2;
  auto segment = std::make_shared<SharedSegment>(SharedCollectives::bytes_for(kRanks));
  SharedCollectives::prepare(*segment, kRanks);
  std::vector<std::unique_ptr<SharedCollectives>> groups;
  for (int rank = 0; rank < kRanks; ++rank) {
    groups.push_back(std::make_unique<SharedCollectives>(segment, rank, kRanks, kTimeout));
    OtherMachines others;
    others.names = {4, 5};
    others.links = kRanks;
    others.link = std::make_unique<LateLink>();
    groups.back()->join(std::move(others));
  }
  std::vector<std::vector<float>> values(kRanks, std::vector<float>(8 * kChunk, 1));
  std::vector<std::future<void>> sums;
  for (int rank = 0; rank < kRanks; ++rank)
    sums.push_back(start(*groups[static_cast<std::size_t>(rank)], values[static_cast<std::size_t>(rank)]));
  for (std::future<void>& sum : sums) EXPECT_THROW(sum.get(), PeerError);
  for (const auto& group : groups) {
    std::vector<float> more(10, 1);
    EXPECT_THROW(start(*group, more).get(), PeerError);
  }
}

}  // namespace
}  // namespace hookline
