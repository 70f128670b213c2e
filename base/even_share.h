// How parameters are divided among ranks when each rank updates only its share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hookline {

/// A range of elements, in memory order.
struct Share {
  std::int64_t first = 0, count = 0;
};

/// The largest share, in elements, that any rank gets of `numel` elements.
inline std::int64_t largest_share(std::int64_t numel, int ranks) { return (numel + ranks - 1) / ranks; }

/// The share of `rank`. Ranks get equal shares in rank order; the last ranks may get fewer elements, or none.
inline Share even_share(std::int64_t numel, int rank, int ranks) {
  const std::int64_t most = largest_share(numel, ranks);
  const std::int64_t first = std::min(rank * most, numel);
  return {first, std::min(most, numel - first)};
}

/// Lays a rank's shares of several parameters end to end in one "part". All ranks' parts have the same size:
/// where a rank's share of a parameter is smaller than the largest share, padding fills the gap.
class PartLayout {
 public:
  PartLayout() = default;
  PartLayout(const std::vector<std::int64_t>& numels, int ranks) : ranks_(ranks) {
    std::int64_t begin = 0, end_of_share = 0;
    for (const std::int64_t numel : numels) {
      end_of_share += largest_share(numel, ranks);
      parameters_.push_back({numel, begin, end_of_share});
      begin += numel;
    }
  }

  /// Number of elements in a part, padding included.
  std::int64_t elements() const { return parameters_.empty() ? 0 : parameters_.back().end_of_share; }

  /// The elements of one parameter in a range of every rank's part: `count` elements for each rank.
  struct Stretch {
    std::size_t parameter;            // its index
    std::int64_t begin_of_parameter;  // its offset if whole parameters lie end to end
    std::int64_t begin, step, count;  // offset of rank 0's elements in it, distance to next rank's, number
    std::int64_t at;                  // offset in the range
    std::int64_t numel;               // of the parameter
    int ranks;

    std::int64_t begin_of(std::int64_t rank) const { return rank * step + begin; }
    std::int64_t count_of(std::int64_t rank) const {
      return std::clamp(numel - begin_of(rank), std::int64_t{0}, count);
    }
    /// How many ranks, counted from rank 0, have all `count` elements.
    std::int64_t full() const {
      const std::int64_t behind = numel - begin - count;
      return behind < 0 ? 0 : std::min<std::int64_t>(ranks, behind / step + 1);
    }
  };

  /// Calls `action` with a Stretch for each parameter that has elements in [first, end) of the parts.
  template <class Action>
  void for_each(std::int64_t first, std::int64_t end, const Action& action) const {
    auto next = std::upper_bound(
        parameters_.begin(), parameters_.end(), first,
        [](std::int64_t element, const Parameter& each) { return element < each.end_of_share; });
    for (std::int64_t at = first; at < end; ++next) {
      const std::int64_t step = largest_share(next->numel, ranks_);
      const std::int64_t count = std::min(end, next->end_of_share) - at;
      if (count == 0) continue;
      const std::int64_t begin = at - (next->end_of_share - step);
      action(Stretch{static_cast<std::size_t>(next - parameters_.begin()), next->begin, begin, step, count,
                     at - first, next->numel, ranks_});
      at += count;
    }
  }

 private:
  struct Parameter {
    std::int64_t numel, begin, end_of_share;
  };

  int ranks_ = 1;
  std::vector<Parameter> parameters_;
};

}  // namespace hookline
