// How messages name a length of time.
#pragma once

#include <chrono>
#include <string>

#include "base/text/number_text.h"

namespace hookline {

/// How long something took or will take: "23 µs", "4.2 ms", "3.1 s", "2 min 5 s", "1 h 3 min".
std::string duration_text(std::chrono::duration<double> time);

/// A time that a key or a flag sets in seconds, so that people find it there: "600 s", "0.01 s". Three
/// digits.
std::string seconds_text(std::chrono::duration<double> time);

/// The unit in which duration_text() writes `time` below a minute, for texts that have several numbers in one
/// unit.
Unit duration_unit(std::chrono::duration<double> time);

}  // namespace hookline
