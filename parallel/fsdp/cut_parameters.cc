#include "parallel/fsdp/cut_parameters.h"

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <map>
#include <mutex>

#include "base/error.h"

namespace hookline {
namespace {

struct CutParameters {
  std::mutex mutex;
  std::map<const void*, c10::weak_intrusive_ptr<c10::TensorImpl>> cut;

  static CutParameters& of_process() {
    static CutParameters all;
    return all;
  }
};

}  // namespace

void expect_none_is_cut(const torch::nn::Module& module) {
  CutParameters& all = CutParameters::of_process();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.cut, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.value().defined() && all.cut.contains(parameter.value().unsafeGetTensorImpl()))
      throw Error("the model '" + module.name() + "' is sharded already ('" + parameter.key() +
                  "' is one rank's piece): prepare it once; after a failure, make it anew");
  }
}

void remember_as_cut(const torch::nn::Module& module) {
  CutParameters& all = CutParameters::of_process();
  const std::lock_guard lock(all.mutex);
  for (const at::Tensor& parameter : module.parameters())
    if (parameter.defined()) all.cut.emplace(parameter.unsafeGetTensorImpl(), parameter.getIntrusivePtr());
}

}  // namespace hookline
