// How messages name a length of time.
#pragma once

#include <chrono>
#include <string>

namespace hookline {

/// "60 s", "0.01 s": three digits.
std::string seconds_text(std::chrono::duration<double> time);

}  // namespace hookline
