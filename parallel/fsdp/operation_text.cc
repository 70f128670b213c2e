#include "parallel/fsdp/operation_text.h"

namespace hookline {
namespace {

std::string rank_does(ShardOperation::Kind kind) {
  switch (kind) {
    case ShardOperation::Kind::gather_for_forward:
      return "begins a forward and gathers the parameters";
    case ShardOperation::Kind::gather_for_evaluation:
      return "begins a forward without gradients and gathers the parameters";
    case ShardOperation::Kind::gather_for_backward:
      return "is in a backward and gathers the parameters";
    case ShardOperation::Kind::gather_for_summon:
      return "is in summon_full_params and gathers the parameters";
    case ShardOperation::Kind::scatter:
      return "averages the gradients";
    case ShardOperation::Kind::gather_after_step:
      break;  // only for sharded optimizers, which have their own channels
  }
  return "does something else";
}

}  // namespace

std::string quoted_unit(const std::string& name) {
  return name.empty() ? "the model itself" : "'" + name + "'";
}

std::string operation_text(ShardOperation::Kind kind, const std::string& unit_name) {
  return rank_does(kind) + " of " + quoted_unit(unit_name);
}

}  // namespace hookline
