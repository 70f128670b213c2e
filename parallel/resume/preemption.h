// The warning that a scheduler gives before it takes the machine away: SIGUSR1.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "parallel/world/world.h"

namespace hookline {

/// The exit code of ranks that have saved their state because of it: EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedForLater = 75;

/// Whether any rank was warned, as all ranks agree. Not synchronised.
class Preemption {
 public:
  /// Records SIGUSR1 from now on, unless the program handles it itself. Ranks that keep checkpoints start
  /// with the signal ignored; if it came early, the launcher sends it again after a rank's first report.
  explicit Preemption(std::shared_ptr<World> world);

  /// Call it after step `step`, alike on all ranks: are they to save and end? Asks the others about every
  /// 0.3 s, or after every step if steps are longer.
  bool look(std::int64_t step);
  /// Ignores all further warnings.
  void ignore();

 private:
  std::shared_ptr<World> world_;
  std::int64_t next_look_ = 0, last_look_ = 0;  // steps
  std::chrono::steady_clock::time_point last_look_at_ = std::chrono::steady_clock::now();
};

}  // namespace hookline
