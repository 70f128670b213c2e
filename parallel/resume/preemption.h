// The warning that a scheduler gives before it takes the machine away: SIGUSR1.
#pragma once

namespace hookline {

/// Notes the signal from now on, unless the program has a handler of its own. The launcher starts ranks that keep checkpoints
/// so that they ignore it, and sends one that came before once a rank has told it something.
void watch_for_preemption();

/// Has it come?
bool preemption_announced();

/// What ranks exit with that have saved their state because of it: EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedForLater = 75;

}  // namespace hookline
