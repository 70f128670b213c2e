#include "parallel/world/vector_math.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <mutex>

namespace hookline {

void warm_up_vector_math() {
  static std::once_flag once;
  std::call_once(once, [] {
    const at::NoGradGuard no_grad;
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const at::Tensor half = at::full({1}, 0.5, type);
      // The functions that ATen/cpu/vml.h takes from MKL.
      for (const auto function :
           {at::acos, at::asin, at::atan, at::cos, at::erf, at::erfc, at::erfinv, at::exp, at::log, at::log10,
            at::log2, at::sin, at::sqrt, at::tan, at::tanh, at::trunc})
        function(half);
    }
  });
}

}  // namespace hookline
