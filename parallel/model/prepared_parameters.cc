#include "parallel/model/prepared_parameters.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hookline {
namespace {

using torch::nn::Module;

/// Gives access to a module's own parameters: Module::named_parameters() copies names and tensors, which
/// takes longer than walking the modules.
struct OwnParameters : Module {
  static const torch::OrderedDict<std::string, at::Tensor>& of(const Module& module) {
    return module.*(&OwnParameters::parameters_);
  }
};

/// Calls visit(parameter) for each registered parameter, including undefined ones, always in the same order,
/// until it returns false.
template <class Visit>
bool walk(const Module& module, const Visit& visit) {
  for (const auto& item : OwnParameters::of(module))
    if (!visit(item.value())) return false;
  for (const auto& child : module.children())
    if (!walk(*child, visit)) return false;
  return true;
}

template <class Visit>
void walk_with_names(const Module& module, const std::string& prefix, const Visit& visit) {
  for (const auto& item : OwnParameters::of(module)) visit(prefix + item.key(), item.value());
  for (const auto& child : module.named_children())
    walk_with_names(*child.value(), prefix + child.key() + ".", visit);
}

template <class Impl, class Visit>
bool visit_as(Module& module, const Visit& visit) {
  auto* const layer = dynamic_cast<Impl*>(&module);
  if (!layer) return false;
  visit("weight", layer->weight);
  if constexpr (requires { layer->bias; }) visit("bias", layer->bias);
  return true;
}

template <class... Impls, class Visit>
void visit_members_as(Module& module, const Visit& visit) {
  static_cast<void>((visit_as<Impls>(module, visit) || ...));
}

template <class Visit>
void visit_members(Module& module, const Visit& visit) {
  using namespace torch::nn;
  visit_members_as<LinearImpl, BilinearImpl, EmbeddingImpl, EmbeddingBagImpl, LayerNormImpl, GroupNormImpl,
                   BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl, InstanceNorm2dImpl,
                   InstanceNorm3dImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl,
                   ConvTranspose2dImpl, ConvTranspose3dImpl>(module, visit);
}

constexpr const char* kAdvice =
    ": only gradients of the tensors that prepare() found are averaged. Register modules and parameters "
    "before prepare(), and change values in place, as with copy_() under torch::NoGradGuard";

}  // namespace

PreparedParameters::PreparedParameters(std::shared_ptr<Module> module) : module_(std::move(module)) {
  walk_with_names(*module_, "", [&](const std::string& name, const at::Tensor& parameter) {
    known_.push_back({parameter, parameter.defined() && parameter.requires_grad(), name});
  });
  for (const auto& item : module_->named_modules(std::string(), /*include_self=*/false))
    visit_members(*item.value(), [&](const char* name, const at::Tensor& member) {
      members_.push_back({item.value(), &member, member, item.key() + "." + name});
    });
  visit_members(*module_, [&](const char* name, const at::Tensor& member) {
    members_.push_back({module_, &member, member, name});
  });
}

void PreparedParameters::expect_unchanged() {
  auto next = known_.begin();
  const bool are_same = walk(*module_, [&](const at::Tensor& parameter) {
    if (next == known_.end() || !parameter.is_same(next->parameter)) return false;
    if (!next->requires_grad && parameter.defined() && parameter.requires_grad()) return false;
    ++next;
    return true;
  });
  if (!are_same || next != known_.end()) expect_same_in_other_places();
  for (const Member& member : members_)
    if (!member.tensor->is_same(member.parameter))
      throw Error("'" + member.name + "' was assigned another tensor after the model was prepared" + kAdvice);
}

void PreparedParameters::expect_same_in_other_places() {
  const auto find = [](const std::vector<Known>& all, const auto& is_it) {
    return std::find_if(all.begin(), all.end(), is_it);
  };
  std::vector<Known> now;
  walk_with_names(*module_, "", [&](const std::string& name, const at::Tensor& parameter) {
    const auto known = find(known_, [&](const Known& each) { return each.parameter.is_same(parameter); });
    if (known == known_.end()) {
      const bool is_replaced =
          find(known_, [&](const Known& each) { return each.name == name; }) != known_.end();
      throw Error("the parameter '" + name + "' was " +
                  (is_replaced ? "replaced by another tensor" : "registered") +
                  " after the model was prepared" + kAdvice);
    }
    if (!known->requires_grad && parameter.defined() && parameter.requires_grad())
      throw Error("the parameter '" + name +
                  "' requires a gradient now, and did not when the model was prepared: call "
                  "requires_grad_(true) before prepare(), and requires_grad_(false) after it if it is to be "
                  "frozen at first");
    now.push_back({parameter, known->requires_grad, name});
  });
  for (const Known& each : known_)
    if (find(now, [&](const Known& other) { return other.parameter.is_same(each.parameter); }) == now.end())
      throw Error("the parameter '" + each.name + "' was taken out of the model after it was prepared" +
                  kAdvice);
  known_ = std::move(now);
}

}  // namespace hookline
