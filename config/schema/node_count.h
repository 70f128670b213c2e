// How many nodes a run is to have: what [launch] nnodes says.
#pragma once

#include <optional>
#include <string_view>

namespace hookline {

struct NodeCount {
  static constexpr int kMost = 4096;

  int least = 1, most = 1;
  int spares = 0;  // that wait for the place of a lost node

  int total() const { return most + spares; }

  /// "2", "2:4" for two to four, or "4+1" for four and a spare. Nothing if `text` is none of these, or a
  /// number is not from 1 to kMost.
  static std::optional<NodeCount> parse(std::string_view text);
};

}  // namespace hookline
