// Many steps of mixed collectives with random delays, each compared with a plain loop over the ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "tests/shared_memory/ranks.h"

namespace hookline::testing {

/// A rank's value at index `i` in collective `number`. Sums of these values round, so they reveal the order.
inline float value_at(int rank, unsigned number, std::size_t i) {
  std::uint32_t bits = (static_cast<std::uint32_t>(i) + 1) * 2654435761u;
  bits ^= (number * 40503u + static_cast<unsigned>(rank) * 977u) * 2246822519u;
  return static_cast<float>((bits ^ bits >> 15) >> 8) * 1e-3f;
}

/// One rank's steps. The collectives and their sizes are the same on all ranks; each rank decides on its own
/// when to start one and whether to wait for it before the next.
class RandomSteps {
 public:
  RandomSteps(SharedCollectives& group, int rank, int ranks)
      : group_(group),
        rank_(rank),
        ranks_(ranks),
        shared_(static_cast<unsigned>(ranks)),
        own_(static_cast<unsigned>(rank + 100)) {}

  /// Returns the first unexpected result, or the error of the first failed collective; empty if there is
  /// none.
  std::string run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (own_() % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 1000));
      for (auto left = 1 + shared_() % 3; left > 0; --left) start_one();
      while (!under_way_.empty() && (under_way_.size() > kMostUnderWay || own_() % 4 == 0))
        if (const std::string problem = finish_one(); !problem.empty()) return problem;
    }
    while (!under_way_.empty())
      if (const std::string problem = finish_one(); !problem.empty()) return problem;
    return "";
  }

 private:
  enum class Kind { sum, all_gather, all_to_all, broadcast };
  static constexpr std::size_t kMostUnderWay = 8;

  struct Started {
    Kind kind;
    unsigned number;
    std::size_t elements;  // that a rank sums or sends to another rank
    int root;
    std::vector<float> sent, received;  // sums and broadcasts use only `sent`
    std::future<void> done;
  };

  std::size_t random_size() {
    const auto sort = shared_() % 60;  // most are small
    return shared_() % (sort == 0  ? 3 * kChunk
                        : sort < 9 ? 2 * kDirect / static_cast<std::size_t>(ranks_)
                                   : 200);
  }

  void start_one() {
    const auto count = static_cast<std::size_t>(ranks_);
    Started& one = under_way_.emplace_back();
    one.kind = static_cast<Kind>(shared_() % 4);
    one.number = next_++;
    one.elements = random_size();
    one.root = static_cast<int>(shared_() % count);
    const std::size_t sent = one.kind == Kind::all_to_all ? one.elements * count : one.elements;
    for (std::size_t i = 0; i < sent; ++i) one.sent.push_back(value_at(rank_, one.number, i));
    if (one.kind == Kind::sum) {
      one.done = start(group_, one.sent);
      return;
    }
    PartExchange exchange;
    exchange.sent = one.sent.data();
    exchange.part_bytes = one.elements * sizeof(float);
    if (one.kind == Kind::broadcast) {
      exchange.only_from = one.root;
      exchange.received = one.sent.data();
    } else {
      one.received.resize(one.elements * count);
      exchange.received = one.received.data();
      exchange.sends_same_to_all = one.kind == Kind::all_gather;
    }
    one.done = start(group_, std::move(exchange));
  }

  std::string finish_one() {
    Started one = std::move(under_way_.front());
    under_way_.pop_front();
    if (std::string error = error_of(one.done); !error.empty()) return error;
    const std::vector<float>& got = one.received.empty() ? one.sent : one.received;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float expected = expected_at(one, i);
      if (std::memcmp(&got[i], &expected, sizeof expected) != 0)
        return "collective " + std::to_string(one.number) + ", element " + std::to_string(i) + ": " +
               std::to_string(got[i]) + " instead of " + std::to_string(expected);
    }
    return "";
  }

  float expected_at(const Started& one, std::size_t i) const {
    if (one.kind == Kind::broadcast) return value_at(one.root, one.number, i);
    if (one.kind != Kind::sum) {
      const std::size_t within = i % one.elements;
      const std::size_t begin =
          one.kind == Kind::all_gather ? 0 : static_cast<std::size_t>(rank_) * one.elements;
      return value_at(static_cast<int>(i / one.elements), one.number, begin + within);
    }
    float sum = value_at(0, one.number, i);
    for (int rank = 1; rank < ranks_; ++rank) sum += value_at(rank, one.number, i);
    return sum;
  }

  SharedCollectives& group_;
  int rank_, ranks_;
  std::minstd_rand shared_, own_;
  unsigned next_ = 0;
  std::deque<Started> under_way_;  // a deque: its elements do not move
};

}  // namespace hookline::testing
