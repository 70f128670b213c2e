// The warning that a scheduler gives before it takes the machine away: SIGUSR1.
#pragma once

namespace hookline {

/// Records SIGUSR1 from now on, unless the program handles it itself. Ranks that keep checkpoints start with
/// the signal ignored; if it came early, the launcher sends it again after a rank's first report.
void watch_for_preemption();

/// Has it come?
bool preemption_announced();

/// The exit code of ranks that have saved their state because of it: EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedForLater = 75;

}  // namespace hookline
