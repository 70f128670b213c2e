// How often the failure watch looks, and how long it waits for what.
#pragma once

#include <chrono>

namespace hookline::watch_times {

using std::chrono::milliseconds;

inline constexpr milliseconds kTick{100};       // between two looks at the store
inline constexpr milliseconds kHeartbeat{500};  // between two heartbeats, and two looks for those of others
inline constexpr milliseconds kPatience{1000};  // of waiting, before a rank checks the others' heartbeats
inline constexpr milliseconds kSuspiciousSilence{2500};  // before a rank is lost after a failed collective
inline constexpr milliseconds kTimeToSayWhy{4500};       // for the rank that broke a collective to report why
inline constexpr milliseconds kTimeToHear{1000};   // for ranks to read a failure; a dead rank never does
inline constexpr milliseconds kTimeToEnd{2000};    // for a thread that an unresponsive store may block
inline constexpr milliseconds kLongestAway{2000};  // between two checks; if longer, this process was stopped

}  // namespace hookline::watch_times
