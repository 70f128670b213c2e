#include "parallel/model/around_forward.h"

#include "base/error.h"

namespace hookline::detail {

void throw_outputs_unknown(const std::string& module, std::string_view who_needs_them) {
  throw Error(
      "the forward of '" + module + "' returns a type with tensors that hookline can't find, which " +
      std::string(who_needs_them) +
      ": beside that type, define visit_tensors(Output&, visit), which calls visit for each tensor in it");
}

void throw_no_outputs(const std::string& module, std::string_view who_needs_them) {
  throw Error("the forward of '" + module + "' returns nothing, and " + std::string(who_needs_them) +
              " its outputs: return the tensors that the loss is made of");
}

}  // namespace hookline::detail
