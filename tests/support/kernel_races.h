// Detects memory that two threads of a kernel use, at least one of them writing, without a barrier between
// them, whatever order the fibers ran in.
//
// g++ -fsanitize=thread turns each memory access into a call of the thread sanitizer. Kernels compiled this
// way (tests/cuda/CMakeLists.txt) are linked with kernel_races.cc instead of the sanitizer's runtime, which
// treats all fibers that it is not told about as one thread, and so would find no race between them. A
// block's barrier orders its threads; __syncwarp and shuffles are not treated as ordering. Nothing orders
// two blocks.
#pragma once

#include <string>
#include <vector>

namespace hookline::testing {

/// The races found since the last call, one line each, without immediate repetitions; at most ten.
std::vector<std::string> take_kernel_races();

}  // namespace hookline::testing
