// How PowerSGD's vectors are made orthonormal: one rule, for the CPU and for GPUs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hookline {

struct Orthogonalization {
  double epsilon;    // added to each norm
  int passes;        // how often each projection is done
  double precision;  // a vector whose length falls to this part of what it was depends on the earlier ones
};

/// For `rank` vectors of a type of `type_bytes` whose epsilon is `type_epsilon`. Source: see low_rank.h,
/// orthogonalize.
inline Orthogonalization orthogonalization_of(std::int64_t rank, std::size_t type_bytes, double type_epsilon,
                                              double epsilon) {
  // PyTorch takes a QR decomposition here, which knows no epsilon.
  if (rank > 2 && type_bytes >= sizeof(float)) epsilon = 0;
  // With an epsilon, directions are shorter than 1, and one projection removes only a part of the component,
  // as in PyTorch; a second one would remove more.
  return {epsilon, epsilon == 0 ? 2 : 1, 4 * type_epsilon};
}

}  // namespace hookline
