// Do the elements of two tensors lie in memory in the same order?
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hookline {

/// True if both tensors have the same sizes and the same strides. Strides of dimensions of size 1 do not
/// matter.
inline bool have_same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t i = 0; i < a.dim(); ++i)
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) return a.numel() == 0;
  return true;
}

}  // namespace hookline
