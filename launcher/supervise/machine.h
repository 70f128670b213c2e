// What this machine offers to a run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hookline {

/// How many of `devices` GPUs a process sees; `variable` is CUDA_VISIBLE_DEVICES, read as CUDA reads it:
/// unset shows all, and the first entry that names no device hides itself and what follows.
int visible_gpus(int devices, const std::optional<std::string>& variable);

/// The same for this machine and environment.
int visible_gpus();

/// Cores that this process may run on.
int usable_cores();

}  // namespace hookline
