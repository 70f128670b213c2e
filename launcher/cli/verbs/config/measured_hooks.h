// How long a step takes with each hook on this machine, for the wizard to propose one.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema/detected.h"

namespace hookline {

/// Runs `hookline advise` on this machine for `program`, or, if that is empty, for a model with `parameters`
/// parameters, and stores the results in `here`. Throws Error with the output of `hookline advise` if it
/// fails.
void measure_hooks(const std::string& program, std::int64_t parameters, Detected& here);

}  // namespace hookline
