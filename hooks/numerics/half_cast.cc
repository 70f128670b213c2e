#include "hooks/numerics/half_cast.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#define HOOKLINE_KERNELS "hooks/numerics/half_cast_kernels.inc"
#include "hooks/numerics/both_forms.inc"

namespace hookline {

void cast_and_divide(const at::Tensor& from, const at::Tensor& to, std::int64_t divisor, Kernels kernels) {
  if (from.scalar_type() != at::kFloat || !from.is_cpu()) {
    to.copy_(from).div_(divisor);
    return;
  }
  AT_DISPATCH_REDUCED_FLOATING_TYPES(to.scalar_type(), "cast_and_divide", [&] {
    const auto run =
        is_wide(kernels) ? wide::cast_and_divide_typed<scalar_t> : plain::cast_and_divide_typed<scalar_t>;
    run(from.const_data_ptr<float>(), to.mutable_data_ptr<scalar_t>(), static_cast<float>(divisor),
        to.numel());
  });
}

}  // namespace hookline
