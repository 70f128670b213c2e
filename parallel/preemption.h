// The warning that a scheduler gives before it takes the machine away: SIGUSR1.
#pragma once

namespace hookline {

/// Notes the signal from now on, unless the program has a handler of its own, or ignores it.
void watch_for_preemption();

/// Has it come?
bool preemption_announced();

/// What ranks exit with that have saved their state because of it: EX_TEMPFAIL of sysexits.h.
inline constexpr int kSavedForLater = 75;

}  // namespace hookline
