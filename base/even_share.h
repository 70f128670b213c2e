// How parameters are cut where each rank steps a part of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hookline {

/// Elements in the order of memory.
struct Share {
  std::int64_t first = 0, count = 0;
};

/// The most that a rank has of `numel` elements.
inline std::int64_t largest_share(std::int64_t numel, int ranks) { return (numel + ranks - 1) / ranks; }

/// As many for each rank, in the order of ranks; the last ones may have fewer, or none.
inline Share even_share(std::int64_t numel, int rank, int ranks) {
  const std::int64_t most = largest_share(numel, ranks);
  const std::int64_t first = std::min(rank * most, numel);
  return {first, std::min(most, numel - first)};
}

/// The shares of several parameters, end to end: a part for each rank, of as many elements on all. Where a rank has less of a
/// parameter than others have, its part has elements of no parameter.
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

  /// Of a part.
  std::int64_t elements() const { return parameters_.empty() ? 0 : parameters_.back().end_of_share; }

  /// Elements of one parameter's shares: `count` of each rank, `step` elements from rank to rank.
  struct Stretch {
    std::size_t parameter;
    std::int64_t begin_of_parameter;  // if parameters lie end to end
    std::int64_t begin, step, count;  // in the parameter: rank 0's
    std::int64_t at;                  // in the piece of a part
    std::int64_t numel;               // of the parameter
    int ranks;

    std::int64_t begin_of(std::int64_t rank) const { return rank * step + begin; }
    std::int64_t count_of(std::int64_t rank) const {
      return std::clamp(numel - begin_of(rank), std::int64_t{0}, count);
    }
    /// How many ranks, from 0 on, have all of it.
    std::int64_t full() const {
      const std::int64_t behind = numel - begin - count;
      return behind < 0 ? 0 : std::min<std::int64_t>(ranks, behind / step + 1);
    }
  };

  /// Gives `action` what the elements from `first` to before `end` of every part are.
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
