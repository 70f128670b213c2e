// How messages name a number of bytes.
#pragma once

#include <string>

#include "base/text/number_text.h"

namespace hookline {

/// What is sent or stored: "70 kB", "25.2 MB", "512 B". Powers of 1000, three digits.
std::string bytes_text(double bytes);

/// What is sent in a second: "120 MB/s".
std::string rate_text(double bytes_per_second);

/// Limits, memory and buckets, which config keys, PyTorch and Linux count in powers of 1024: "256 KiB", "1.5
/// MiB", "512 B".
std::string binary_bytes_text(double bytes);

/// binary_bytes_text() of what is more than a limit: "3 KiB", or "more than 2 KiB" where the two would read
/// alike.
std::string bytes_beyond_text(double bytes, double limit);

/// The unit in which bytes_text() writes `bytes`, for texts that have several numbers in one unit.
Unit bytes_unit(double bytes);

}  // namespace hookline
