#include "parallel/distributed_module.h"

#include "hooks/error.h"

namespace hookline::detail {

void throw_outputs_unknown(const std::string& module) {
  throw Error("what the forward of '" + module +
              "' returns holds tensors that hookline can't find, which "
              "find_unused_parameters and static_graph need: define visit_tensors(Output&, visit) for it, as "
              "parallel/module_outputs.h shows");
}

void throw_no_outputs(const std::string& module) {
  throw Error("the forward of '" + module +
              "' returns nothing, and find_unused_parameters and static_graph need its outputs: return the "
              "tensors that the loss is made of");
}

}  // namespace hookline::detail
