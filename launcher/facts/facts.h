// Facts about this host for a bug report. A fact that can't be determined gives the reason instead, where one
// is known.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace hookline {

/// Strings, numbers, booleans, lists and objects of these, in the order in which people read them. Names are
/// those of JSON: "swap_bytes".
using Facts = nlohmann::ordered_json;

/// Distribution, kernel, C library, container, scheduler.
Facts system_facts();

/// Processors, memory, and what a control group leaves of them.
Facts machine_facts();

/// What can hold the processes of a run: whether a PID namespace can be made here, and below which control
/// group a run gets its own. Makes a namespace to find out; call it while the process has a single thread.
Facts isolation_facts();

/// NVIDIA's driver and GPUs, as its management library (NVML) reports them.
Facts gpu_facts();

/// Each interface with its addresses, state and speed.
Facts network_facts();

/// What processes may use: files, processes, locked memory, shared memory, ports.
Facts limit_facts();

/// The variables that change what ranks do: those of hookline, torch, NCCL, Gloo, CUDA, OpenMP and
/// schedulers.
Facts variable_facts();

/// For people: indented lines, "name: value", and bytes in KiB, MiB or GiB.
std::string text_of(const Facts& facts);

/// What a file of one line holds, as those of /proc and /sys do; empty if it can't be read.
std::string line_of(const std::string& file);

}  // namespace hookline
