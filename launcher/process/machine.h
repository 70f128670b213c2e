// What this machine offers to a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hookline {

/// Cores that this process may run on.
int usable_cores();

/// Nothing if it is unset or empty.
std::optional<std::string> environment_variable(const char* name);

/// The name that this machine gives itself.
std::string host_name();

/// How many processes the kernel has killed for want of memory since the system started; nothing if it does
/// not count.
std::optional<std::int64_t> memory_kills_so_far();

}  // namespace hookline
