// In which order the units of a sharded model gather their parameters and average their gradients: pure,
// without collectives.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace hookline {

/// Remembers the order of the first forwards, which every rank runs alike, and walks through it in each
/// backward. A unit is its position among the model's. Not synchronised.
class UnitOrder {
 public:
  /// A forward of the unit begins; the first one counts.
  void begin_forward(std::size_t unit);
  /// A forward of the unit, of which a backward may come, ends; the first one counts.
  void end_forward(std::size_t unit);

  /// Units in the order in which their first forwards began. Gradients are averaged in its reverse.
  const std::vector<std::size_t>& begun() const { return begun_.units; }
  /// The unit whose first forward began right after that of `unit`.
  std::optional<std::size_t> next_in_forward(std::size_t unit) const;

  /// A backward begins: it gathers in the reverse of the order in which first forwards ended.
  void begin_backward() { left_in_backward_ = ended_.units.size(); }
  /// The next unit to gather in this backward; none at the end. Units for which `needs_gather(unit)` is false
  /// are skipped for good.
  template <class NeedsGather>
  std::optional<std::size_t> next_in_backward(const NeedsGather& needs_gather) {
    while (left_in_backward_ > 0) {
      const std::size_t unit = ended_.units[--left_in_backward_];
      if (needs_gather(unit)) return unit;
    }
    return std::nullopt;
  }
  /// The unit's turn in this backward is still to come.
  bool is_ahead_in_backward(std::size_t unit) const;

 private:
  struct Sequence {
    std::vector<std::size_t> units;
    std::vector<std::optional<std::size_t>> places;  // in it, by unit

    void add(std::size_t unit);
    std::optional<std::size_t> place_of(std::size_t unit) const;
  };

  Sequence begun_, ended_;
  std::size_t left_in_backward_ = 0;  // of ended_, from its front
};

}  // namespace hookline
