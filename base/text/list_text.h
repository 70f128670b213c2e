// How messages list several things.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hookline {

/// How many items a message lists unless it says otherwise.
inline constexpr std::size_t kMostListed = 8;

/// "a", "a and b", "a, b and c"; of more than `most` + 1 items the first `most` and the number of the others:
/// "a, b and 7 more". Empty if there are none.
std::string list_text(const std::vector<std::string>& items, std::size_t most = kMostListed);

/// "rank 1", "ranks 1 and 3", "ranks 0, 2 and 3"; of many ranks the first few, as above.
std::string rank_names(const std::vector<int>& ranks);

}  // namespace hookline
