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

/// "there is no GPU here: …", for where visible_gpus() is 0: what was looked at.
std::string why_no_gpu();

/// " needs a GPU for each rank; GPUs: 1, ranks: 2", and what to do.
std::string too_few_gpus(int gpus, int ranks);

}  // namespace hookline
