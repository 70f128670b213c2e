// Which ranks wait for long in a collective, and who keeps them waiting: pure, without a store or a clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/watch/rank_position.h"

namespace hookline {

/// For the rank that sees where all ranks are. Not synchronised.
class LongWaits {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A collective counts as a long wait once it has been pending for `patience`. The observed positions of
  /// the ranks may differ in age by up to `staleness`.
  LongWaits(std::chrono::milliseconds patience, std::chrono::milliseconds staleness)
      : patience_(patience), staleness_(staleness) {}

  /// A warning that names the ranks that wait, what they wait in, and the ranks that are elsewhere. Nothing
  /// if none waits for long, or if all that do have been in a warning, of which there is one in each
  /// `patience` at most.
  std::optional<std::string> look(const std::vector<RankPosition>& positions, Time now);

  /// This process was stopped for a while: what was seen before says nothing of how long anybody waited.
  void begin_anew() { held_.clear(); }

 private:
  struct Held {  // the oldest pending collective of a rank
    std::optional<std::uint64_t> number;
    Time since{};
    bool is_told = false;
  };

  std::chrono::milliseconds patience_, staleness_;
  std::vector<Held> held_;
  std::optional<Time> warned_;
};

}  // namespace hookline
