// Decides how long a backward waits for averages that are late on other ranks. Pure: no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace hookline {

/// If a rank's backward skips a unit, the rank joins the averaging of that unit's gradients only at the end
/// of backward, and the unit is late on all ranks. Once a unit has been late, a rank stops waiting for
/// it; when its averages arrive in time again, it waits again, half as long as before. After one wait in
/// vain, it waits for no unit any more in the same backward. Units that other ranks skip, even in turns, thus
/// cost at most 2 s each in a whole run.
///
/// A unit is its position among the model's. Not synchronised.
class ReductionPatience {
 public:
  static constexpr std::chrono::milliseconds kLongest{1000};

  void begin_backward() { gave_up_ = false; }
  /// For how long to wait for the unit's averages, before its backward continues.
  std::chrono::milliseconds of(std::size_t unit) const {
    const Unit known = known_of(unit);
    if (!waits_for(known)) return std::chrono::milliseconds(0);
    return kLongest / (1 << std::min(known.waits_in_vain, 10));
  }
  /// They came within that time.
  void came(std::size_t unit) {
    if (unit < units_.size()) units_[unit].is_late = false;
  }
  /// They did not.
  void gave_up(std::size_t unit) {
    if (units_.size() <= unit) units_.resize(unit + 1);
    if (waits_for(units_[unit])) {
      ++units_[unit].waits_in_vain;
      units_[unit].is_late = true;
    }
    gave_up_ = true;
  }

 private:
  struct Unit {
    bool is_late = false;  // its averages last took longer than this rank waits
    int waits_in_vain = 0;
  };
  Unit known_of(std::size_t unit) const { return unit < units_.size() ? units_[unit] : Unit(); }
  bool waits_for(const Unit& unit) const { return !gave_up_ && !unit.is_late; }

  std::vector<Unit> units_;
  bool gave_up_ = false;  // in this backward
};

}  // namespace hookline
