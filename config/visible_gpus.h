// How many GPUs a process sees: what `auto` means for devices and processes.
#pragma once

#include <optional>
#include <string>

namespace hookline {

/// How many of `devices` GPUs a process sees; `variable` is CUDA_VISIBLE_DEVICES, read as CUDA reads it:
/// unset shows all, and the first entry that names no device hides itself and what follows.
int visible_gpus(int devices, const std::optional<std::string>& variable);

/// The same for this machine's NVIDIA GPUs and this process's environment.
int visible_gpus();

}  // namespace hookline
