#include "parallel/tensors/model_tensors.h"

#include <sstream>

#include "base/error.h"

namespace hookline {
namespace {

std::string text_of(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << c10::toString(dtype) << ' ' << sizes;
  return text.str();
}

}  // namespace

NamedTensors tensors_of_model(torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& parameter : module.named_parameters()) tensors[parameter.key()] = parameter.value();
  for (const auto& buffer : module.named_buffers()) tensors[buffer.key()] = buffer.value();
  std::erase_if(tensors, [](const auto& entry) { return !entry.second.defined(); });
  return tensors;
}

void expect_same_model(const NamedTensors& here,
                       const std::function<at::IntArrayRef(const at::Tensor&)>& sizes_of,
                       const NamedTensors& there, const std::string& checkpoint) {
  const std::string what = "the model of the checkpoint '" + checkpoint + "' is not that of the program: ";
  for (const auto& [name, tensor] : here) {
    const auto found = there.find(name);
    if (found == there.end()) throw Error(what + "it has no '" + name + "'");
    const at::Tensor& saved = found->second;
    if (sizes_of(tensor) != saved.sizes() || tensor.scalar_type() != saved.scalar_type())
      throw Error(what + "'" + name + "' is " + text_of(saved.scalar_type(), saved.sizes()) + " there and " +
                  text_of(tensor.scalar_type(), sizes_of(tensor)) + " here");
  }
  for (const auto& [name, tensor] : there) {
    if (!here.contains(name)) throw Error(what + "it has '" + name + "', which the program's does not have");
  }
}

}  // namespace hookline
