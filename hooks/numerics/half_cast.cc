#include "hooks/numerics/half_cast.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace hookline {
namespace {

namespace plain {
#include "hooks/numerics/half_cast_kernels.inc"
}  // namespace plain

#ifdef __x86_64__
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#define HOOKLINE_KERNELS_HAVE_F16C
namespace wide {
#include "hooks/numerics/half_cast_kernels.inc"
}  // namespace wide
#undef HOOKLINE_KERNELS_HAVE_F16C
#pragma GCC pop_options
#else
namespace wide = plain;
#endif

}  // namespace

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
