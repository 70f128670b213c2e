// How many nodes a run is to have: what [launch] nnodes says.
#pragma once

#include <optional>
#include <string_view>

namespace hookline {

struct NodeCount {
  static constexpr int kMost = 4096;

  int least = 1, most = 1;

  /// "2", or "2:4" for two to four. Nothing if `text` is neither, or counts beyond 1 to kMost.
  static std::optional<NodeCount> parse(std::string_view text);
};

}  // namespace hookline
