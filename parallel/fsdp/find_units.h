// Which parameters of a model belong to which of its units.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/fsdp/fsdp_unit.h"
#include "parallel/shards/flat_parameter.h"
#include "parallel/world/world.h"
#include "torch_versions/autograd_node.h"

namespace hookline {

struct FoundUnit {
  std::string name;
  detail::UnitModule* module = nullptr;  // null: the root
  std::vector<std::pair<std::string, at::Tensor>> parameters = {};
};

/// The units of `model`. The root comes first; it holds the parameters that are in no FsdpUnit or in several.
/// With nested units, a parameter belongs to the innermost one.
std::vector<FoundUnit> find_units(torch::nn::Module& model);

/// Throws Error if two parameters are different tensors in the same memory.
void refuse_shared_memory(const torch::nn::Module& model);

/// Autograd's gradient accumulators, by variable. Create them while the parameters are unsharded, since they
/// expect gradients of the sizes that parameters have then, and keep them alive.
using Accumulators = std::map<const void*, torch_versions::NodePtr>;
Accumulators accumulators_of(const FoundUnit& unit);

/// Gives the parameters rank 0's values and cuts them: one FlatParameter for each dtype, and separately for
/// those that get no gradient. A collective call.
std::vector<std::shared_ptr<FlatParameter>> flatten(const FoundUnit& unit, World& world,
                                                    const std::shared_ptr<BufferPool>& pool);

}  // namespace hookline
