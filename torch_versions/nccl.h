// c10d's options contain NCCL's by value, so code that makes them needs the header of the NCCL that libtorch
// was built with.
#pragma once

#include <nccl.h>
#include <torch/version.h>

namespace hookline::torch_versions {

/// The minor version of the NCCL 2 that the wheels of torch 2.`torch_minor` are built with; 0 for a torch
/// that is not known.
constexpr int nccl_minor_of(int torch_minor) {
  switch (torch_minor) {
    case 11:
      return 28;
    case 12:
    case 13:
      return 29;
    case 14:
    case 15:
      return 30;
    default:
      return 0;
  }
}

constexpr int kNcclMinor = TORCH_VERSION_MAJOR == 2 ? nccl_minor_of(TORCH_VERSION_MINOR) : 0;
static_assert(kNcclMinor == 0 || (NCCL_MAJOR == 2 && NCCL_MINOR == kNcclMinor),
              "this nccl.h is not of the NCCL that libtorch was built with: see torch_versions/nccl.h");

}  // namespace hookline::torch_versions
