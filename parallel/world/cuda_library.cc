#include "parallel/world/cuda_library.h"

#include <dlfcn.h>

#include "hooks/build_stamp.h"

namespace hookline {
namespace {

CudaLibrary load() {
  // Load libtorch_cuda first: from here, the search uses the run path of the program, or of Python's
  // extension, which leads to its libtorch.
  void* library = ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (library) library = ::dlopen(kCudaModuleFile, RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return {
        nullptr,
        std::string("hookline's CUDA module can't be loaded: ") + ::dlerror() +
            "\n  build hookline where a CUDA toolkit is, with a libtorch that has CUDA; a module that lies "
            "elsewhere is found through LD_LIBRARY_PATH"};
  auto* function = reinterpret_cast<CudaModuleFunction*>(::dlsym(library, kCudaModuleFunction));
  const CudaModule* module = function ? function() : nullptr;
  const std::string build = module ? module->build : "an unknown torch";
  if (build != HOOKLINE_BUILD_STAMP)
    return {nullptr, std::string(kCudaModuleFile) + " was built with " + build +
                         "; the program was built with " + HOOKLINE_BUILD_STAMP +
                         ": build both with the same"};
  use_cuda_kernels(module->kernels);
  return {module, ""};
}

}  // namespace

const CudaLibrary& cuda_library() {
  static const CudaLibrary library = load();
  return library;
}

}  // namespace hookline
