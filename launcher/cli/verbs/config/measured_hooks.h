// What hooks take on this machine, for the wizard to propose one.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema/detected.h"

namespace hookline {

/// What `hookline advise` says of `program`, or without one of a model of so many parameters, on this machine; into `here`. Throws Error
/// with what it said if it failed.
void measure_hooks(const std::string& program, std::int64_t parameters, Detected& here);

}  // namespace hookline
