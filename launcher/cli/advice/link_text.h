// A network as a command line names it.
#pragma once

#include <string>

namespace hookline {

struct LinkText {
  double bits_per_second = 0;
  double latency_seconds = 0;
};

/// "1gbit", "100mbit", "2.5gbit": bits a second. Throws UsageError.
double link_speed_of(const std::string& text);

/// "1gbit", or "1gbit,0.2ms" with the latency of a message; or the report of a `hookline test` over several
/// hosts, by a name that has a slash or ends in .json: the slowest of the links between hosts. Throws
/// UsageError.
LinkText link_of(const std::string& text);

}  // namespace hookline
