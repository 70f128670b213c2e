// Calling a module's forward with what must happen before and after it.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/model/module_outputs.h"
#include "parallel/model/parallel_strategy.h"

namespace hookline::detail {

[[noreturn]] void throw_outputs_unknown(const std::string& module, std::string_view who_needs_them);
[[noreturn]] void throw_no_outputs(const std::string& module, std::string_view who_needs_them);

/// Returns what `forward()`, the forward of `module`, returns.
template <class Forward>
auto forward_within(AroundForward& around, const torch::nn::Module& module, Forward&& forward) {
  using Output = decltype(forward());
  if (const std::string_view who = around.needs_outputs(); !who.empty()) {
    if constexpr (std::is_void_v<Output>)
      throw_no_outputs(module.name(), who);
    else if constexpr (!KnownOutput<Output>)
      throw_outputs_unknown(module.name(), who);
  }
  around.before_forward();
  const auto run = [&]() -> Output {
    try {
      return forward();
    } catch (...) {
      around.after_failed_forward();
      around.explain_failure();
      throw;
    }
  };
  std::vector<at::Tensor*> tensors;
  if constexpr (std::is_void_v<Output>) {
    run();
    around.after_forward(tensors);
  } else {
    Output output = run();
    if constexpr (KnownOutput<Output>)
      visit_part(output, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    around.after_forward(tensors);
    return output;
  }
}

}  // namespace hookline::detail
