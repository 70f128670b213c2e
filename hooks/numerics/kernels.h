// Which of a kernel's compiled forms runs.
//
// Kernels lie in a .inc file, which both_forms.inc includes twice: for any CPU, in a namespace `plain`, and
// for AVX2 with F16C in a namespace `wide`. The bits are the same; float16 takes a tenth of the time.
#pragma once

#include <type_traits>

namespace hookline {

/// `best` takes what the CPU has.
enum class Kernels { best, plain };

/// True if `kernels` means the wide form here.
bool is_wide(Kernels kernels);

/// The type in which values of type T are summed.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace hookline
