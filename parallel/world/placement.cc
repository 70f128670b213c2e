#include "parallel/world/placement.h"

#include <dlfcn.h>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "config/resolve.h"
#include "config/visible_gpus.h"
#include "parallel/world/cuda_library.h"

namespace hookline {
namespace {

/// The device that the config asks for. Hooks are not known yet, so errors about them are ignored here and
/// reported later.
std::string wanted_device() {
  Sources sources;
  if (const char* file = std::getenv("HOOKLINE_CONFIG"); file && *file) {
    sources.resolved = file;
  } else {
    sources.environment = hookline_environment();
  }
  return resolve(sources, Catalog::built_in()).config.launch.device;
}

/// What came of loading the module before main.
const CudaLibrary& loaded_before_main() {
  static const CudaLibrary loaded =
      visible_gpus() > 0 && wanted_device() != "cpu"
          ? cuda_library()
          : CudaLibrary{nullptr,
                        "hookline's CUDA module was not loaded when the program started, since the config "
                        "that was read at that time asked for the CPU"};
  return loaded;
}

/// True in Python's extension: it is loaded when Python runs already, and loads the module if it needs it.
bool is_in_python() {
  auto* const is_initialized = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  return is_initialized && is_initialized();
}

[[maybe_unused]] const bool kIsLoadedBeforeMain = !is_in_python() && loaded_before_main().module;

/// Why this process can't use CUDA; empty if it can.
std::string obstacle(int gpus) {
  if (gpus == 0) return why_no_gpu();
  if (!loaded_before_main().module) return loaded_before_main().problem;
  if (!at::globalContext().hasCUDA()) {
    return "libtorch sees no CUDA, though its library is loaded: either the driver does not work (try "
           "nvidia-smi), or a "
           "global variable of the program used libtorch before hookline could load it (link hookline's "
           "library first, "
           "or make that variable a local one)";
  }
  return "";
}

}  // namespace

Placement place_rank(const LaunchConfig& config, int local_rank, int local_ranks) {
  Placement placement;
  placement.shared_memory = config.backend == "shm"    ? SharedMemory::always
                            : config.backend == "auto" ? SharedMemory::where_possible
                                                       : SharedMemory::never;
  if (config.device == "cpu" || config.backend == "shm") return placement;
  int gpus = visible_gpus();
  if (const std::string reason = obstacle(gpus); !reason.empty()) {
    if (config.device == "cuda") throw Error("[launch] device = \"cuda\": " + reason);
    if (config.backend == "nccl") throw Error("[launch] backend = \"nccl\" needs GPUs: " + reason);
    if (gpus > 0 && local_rank == 0) log::warning("training on the CPU, though there are GPUs: " + reason);
    return placement;
  }
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  gpus = std::min(gpus,
                  static_cast<int>(cuda.deviceCount()));  // a container may show devices that it may not use
  const bool gpu_each = local_ranks <= gpus;
  if (config.backend == "nccl" && !gpu_each) {
    throw Error("[launch] backend = \"nccl\"" + too_few_gpus(gpus, local_ranks));
  }
  placement.shared_memory = SharedMemory::never;
  placement.device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank % gpus));
  if (config.backend != "gloo" && gpu_each) placement.nccl = loaded_before_main().module;
  cuda.setDevice(placement.device);
  return placement;
}

}  // namespace hookline
