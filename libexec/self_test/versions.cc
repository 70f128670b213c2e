#include "libexec/self_test/versions.h"

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "hooks/build_stamp.h"
#include "parallel/world/cuda_module.h"

namespace hookline {
namespace {

std::string file_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) && info.dli_fname ? info.dli_fname : "unknown";
}

/// 22809 as "2.28.9", 13000 as "13.0".
std::string nccl_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}
std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The version that a library in this process reports through `int function(int*)`.
template <class Text>
std::string version_by(const char* function, Text text) {
  int version = 0;
  const auto found = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, function));
  return found && found(&version) == 0 ? text(version) : "unknown";
}

}  // namespace

std::string versions_as_json() {
  nlohmann::ordered_json json;
  json["built with"] = HOOKLINE_BUILD_STAMP;
  json["file"] = file_of(reinterpret_cast<const void*>(&at::get_cpu_capability));
  json["processor instructions"] = at::get_cpu_capability();
  // Load it as placement.cc does, even if there is no GPU here.
  if (!::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
    json["CUDA"] = std::string("none: ") + ::dlerror();
  } else {
    json["CUDA"] = version_by("cudaRuntimeGetVersion", cuda_text);
    json["NCCL"] = version_by("ncclGetVersion", nccl_text);
  }
  json["hookline's CUDA module"] =
      ::dlopen(kCudaModuleFile, RTLD_NOW | RTLD_LOCAL) ? "is there" : std::string("none: ") + ::dlerror();
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hookline
