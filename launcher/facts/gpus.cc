#include <dlfcn.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "config/visible_gpus.h"
#include "launcher/facts/facts.h"

namespace hookline {
namespace {

/// NVIDIA's management library, which comes with the driver. It is loaded, not linked, since most machines
/// lack it. Its C interface has been stable since its first version; every function returns 0 for success.
class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), close) {
    if (!library_) {
      problem_ = ::dlerror();
    } else if (const int code = call<int (*)()>("nvmlInit_v2"); code != 0) {
      const auto text_of_code = function<const char* (*)(int)>("nvmlErrorString");
      problem_ = text_of_code ? text_of_code(code) : "NVML's error " + std::to_string(code);
    }
  }
  ~Nvml() {
    if (problem_.empty()) call<int (*)()>("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Why the library can't be used; empty if it can.
  const std::string& problem() const { return problem_; }

  std::string driver() const {
    char text[96] = "";
    return call<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion", text, sizeof text) == 0 ? text
                                                                                                : "unknown";
  }

  /// The newest CUDA version that the driver runs: "13.0".
  std::string cuda() const {
    int version = 0;
    if (call<int (*)(int*)>("nvmlSystemGetCudaDriverVersion_v2", &version) != 0) return "unknown";
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  unsigned count() const {
    unsigned count = 0;
    call<int (*)(unsigned*)>("nvmlDeviceGetCount_v2", &count);
    return count;
  }

  Facts describe(unsigned index) const {
    Device device = nullptr;
    if (call<int (*)(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device) != 0)
      return {{"name", "can't be queried"}};
    char name[96] = "unknown";
    call<int (*)(Device, char*, unsigned)>("nvmlDeviceGetName", device, name, sizeof name);
    struct {
      unsigned long long total, free, used;
    } memory{};
    Facts facts = {{"name", name}};
    if (call<int (*)(Device, decltype(memory)*)>("nvmlDeviceGetMemoryInfo", device, &memory) == 0) {
      facts["memory_bytes"] = memory.total;
      facts["used_memory_bytes"] = memory.used;
    }
    return facts;
  }

 private:
  using Device = void*;

  static void close(void* library) { ::dlclose(library); }

  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_.get(), name));
  }
  /// What the function returns; -1 if an older library lacks it.
  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto found = function<Function>(name);
    return found ? found(arguments...) : -1;
  }

  std::unique_ptr<void, void (*)(void*)> library_;
  std::string problem_;
};

}  // namespace

Facts gpu_facts() {
  Facts facts;
  facts["visible"] = visible_gpus();
  if (facts["visible"] == 0) facts["why_none"] = why_no_gpu();
  const Nvml nvml;
  if (!nvml.problem().empty()) {
    facts["driver"] = "none: " + nvml.problem();
    return facts;
  }
  facts["driver"] = nvml.driver();
  facts["newest_cuda"] = nvml.cuda();
  facts["devices"] = Facts::array();
  for (unsigned index = 0; index < nvml.count(); ++index) facts["devices"].push_back(nvml.describe(index));
  return facts;
}

}  // namespace hookline
