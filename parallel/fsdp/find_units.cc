#include "parallel/fsdp/find_units.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace hookline {
namespace {

class Finder {
 public:
  Finder() { units_.push_back({""}); }

  void look_into(torch::nn::Module& module, const std::string& path, std::size_t unit) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
      if (entry.value().defined()) add(prefix + entry.key(), entry.value(), unit);
    }
    for (const auto& child : module.named_children()) {
      const std::string child_path = prefix + child.key();
      auto* const as_unit = dynamic_cast<detail::UnitModule*>(child.value().get());
      look_into(*child.value(), child_path, as_unit ? unit_of(*as_unit, child_path) : unit);
    }
  }
  std::vector<FoundUnit> result() && { return std::move(units_); }

 private:
  /// A module may be registered under several names.
  std::size_t unit_of(detail::UnitModule& module, const std::string& path) {
    const auto [known, is_new] = unit_of_module_.emplace(&module, units_.size());
    if (is_new) units_.push_back({path, &module});
    return known->second;
  }

  void add(const std::string& name, const at::Tensor& parameter, std::size_t unit) {
    const void* const key = parameter.unsafeGetTensorImpl();
    const auto [known, is_new] = unit_of_parameter_.emplace(key, unit);
    if (is_new) units_[unit].parameters.emplace_back(name, parameter);
    if (is_new || known->second == unit || known->second == 0) return;
    auto& there = units_[known->second].parameters;
    const auto found = std::find_if(there.begin(), there.end(), [&](const auto& each) {
      return each.second.unsafeGetTensorImpl() == key;
    });
    units_[0].parameters.push_back(*found);
    there.erase(found);
    known->second = 0;
  }

  std::vector<FoundUnit> units_;
  std::map<const void*, std::size_t> unit_of_parameter_;
  std::map<const detail::UnitModule*, std::size_t> unit_of_module_;
};

}  // namespace

std::vector<FoundUnit> find_units(torch::nn::Module& model) {
  Finder finder;
  finder.look_into(model, "", 0);
  return std::move(finder).result();
}

void refuse_shared_memory(const torch::nn::Module& model) {
  std::map<const void*, std::pair<const void*, std::string>> first_in;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!parameter.defined() || parameter.nbytes() == 0 || parameter.nbytes() < parameter.storage().nbytes())
      continue;
    const auto [first, is_first] = first_in.try_emplace(parameter.storage().unsafeGetStorageImpl(),
                                                        parameter.unsafeGetTensorImpl(), item.key());
    if (is_first || first->second.first == parameter.unsafeGetTensorImpl()) continue;
    throw Error("the parameters '" + first->second.second + "' and '" + item.key() +
                "' of a sharded model are two tensors in the same memory, and each would get its own: "
                "register one tensor in both modules");
  }
}

Accumulators accumulators_of(const FoundUnit& unit) {
  Accumulators nodes;
  for (const auto& [name, parameter] : unit.parameters) {
    if (parameter.requires_grad())
      nodes[parameter.unsafeGetTensorImpl()] = torch::autograd::impl::grad_accumulator(parameter);
  }
  return nodes;
}

std::vector<std::shared_ptr<FlatParameter>> flatten(const FoundUnit& unit, World& world,
                                                    const std::shared_ptr<BufferPool>& pool) {
  struct Group {
    std::tuple<at::ScalarType, c10::Device, bool> kind;
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters;
  };
  std::vector<Group> groups;
  for (const auto& [name, parameter] : unit.parameters) {
    const std::tuple kind{parameter.scalar_type(), parameter.device(), parameter.requires_grad()};
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Group& each) { return each.kind == kind; });
    if (group == groups.end()) group = groups.insert(group, Group{kind, {}, {}});
    group->names.push_back(name);
    group->parameters.push_back(parameter);
  }
  std::vector<std::shared_ptr<FlatParameter>> flats;
  for (Group& group : groups)
    flats.push_back(std::make_shared<FlatParameter>(
        unit.name, std::move(group.names), std::move(group.parameters), world.rank(), world.size(), pool,
        [&](const at::Tensor& whole) { world.broadcast({whole}); }));
  return flats;
}

}  // namespace hookline
