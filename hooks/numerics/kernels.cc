#include "hooks/numerics/kernels.h"

namespace hookline {

bool is_wide(Kernels kernels) {
#ifdef __x86_64__
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has && kernels == Kernels::best;
#else
  static_cast<void>(kernels);
  return false;
#endif
}

}  // namespace hookline
