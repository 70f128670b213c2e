// How often the failure watch looks, and how long it waits for what.
#pragma once

#include <chrono>

namespace hookline::watch_times {

using std::chrono::milliseconds;

inline constexpr milliseconds kTick{100};       // between two looks at the store
inline constexpr milliseconds kHeartbeat{500};  // between two heartbeats, and two looks for those of others
inline constexpr milliseconds kPatience{1000};  // for which nobody asks after the others
inline constexpr milliseconds kSuspiciousSilence{2500};  // that tells enough once a collective has broken
inline constexpr milliseconds kTimeToSayWhy{4500};  // for the rank that broke it to say why, or to be missed
inline constexpr milliseconds kTimeToHear{1000};    // of a failure; a rank that is gone never does
inline constexpr milliseconds kTimeToEnd{2000};     // for a thread that a dead store may hold up
inline constexpr milliseconds kLongestAway{2000};   // between two looks of a process that was not stopped

}  // namespace hookline::watch_times
