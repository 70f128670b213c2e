// Where a rank computes, and what it communicates with.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "config/schema/run_config.h"

namespace hookline {

struct CudaModule;

/// Whether ranks on the CPU sum their tensors through memory that they share.
enum class SharedMemory {
  never,           ///< Over Gloo.
  where_possible,  ///< The ranks of each host do; over Gloo where they can't.
  always,          ///< They do; Error if they can't, or are on several hosts.
};

/// A rank's device and backend.
struct Placement {
  c10::Device device = c10::Device(c10::kCPU);  ///< Where its models and batches live.
  const CudaModule* nccl = nullptr;             ///< The loaded module that makes NCCL groups; null: Gloo.
  SharedMemory shared_memory = SharedMemory::where_possible;  ///< How tensors on the CPU are summed.
  /// Ranks of one host with different labels act as if they were on different hosts: for tests.
  std::string host_label = {};
};

/// What `[launch] device` and `backend` mean for the `local_rank`-th of `local_ranks` ranks of this machine.
/// Rank i gets GPU i, which becomes the calling thread's current one; with more ranks than GPUs they share,
/// over Gloo.
///
/// libtorch decides once per process, when first asked, whether CUDA is available. So the CUDA module is
/// loaded before main if the run's config asks for it (HOOKLINE_CONFIG, else HOOKLINE_LAUNCH__DEVICE), and
/// this function only reports the result. Throws Error if an explicitly configured device or backend is
/// unavailable: no GPU, no module, a module of another build, libtorch asked too early, or fewer GPUs than
/// ranks for NCCL. With `auto` the rank then uses the CPU; if the only obstacle is that there are
/// fewer GPUs than ranks, the ranks share them over Gloo. If there are GPUs that can't be used, local rank 0
/// logs why.
Placement place_rank(const LaunchConfig& config, int local_rank, int local_ranks);

}  // namespace hookline
