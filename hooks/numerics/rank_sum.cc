#include "hooks/numerics/rank_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hookline {
namespace {
constexpr std::size_t kBlock = 512;  // elements, which stay in the fastest cache
}  // namespace
}  // namespace hookline

#define HOOKLINE_KERNELS "hooks/numerics/rank_sum_kernels.inc"
#include "hooks/numerics/both_forms.inc"

namespace hookline {

RankSum rank_sum_of(c10::ScalarType type, Kernels kernels) {
  const bool is_wide_form = is_wide(kernels);
  // Integers are summed as unsigned numbers, whose sums may wrap around.
  switch (type) {
    case c10::ScalarType::Float:
      return is_wide_form ? wide::rank_sum<float> : plain::rank_sum<float>;
    case c10::ScalarType::Double:
      return is_wide_form ? wide::rank_sum<double> : plain::rank_sum<double>;
    case c10::ScalarType::Half:
      return is_wide_form ? wide::rank_sum_widened<at::Half> : plain::rank_sum_widened<at::Half>;
    case c10::ScalarType::BFloat16:
      return is_wide_form ? wide::rank_sum_widened<at::BFloat16> : plain::rank_sum_widened<at::BFloat16>;
    case c10::ScalarType::Byte:
    case c10::ScalarType::Char:
      return is_wide_form ? wide::rank_sum<std::uint8_t> : plain::rank_sum<std::uint8_t>;
    case c10::ScalarType::Int:
      return is_wide_form ? wide::rank_sum<std::uint32_t> : plain::rank_sum<std::uint32_t>;
    case c10::ScalarType::Long:
      return is_wide_form ? wide::rank_sum<std::uint64_t> : plain::rank_sum<std::uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace hookline
