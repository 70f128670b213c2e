// Finds memory that two threads of a kernel use without a barrier between them, whatever the order in which fibers ran.
//
// g++ -fsanitize=thread marks each access to memory by a call of the thread sanitizer's. Kernels that are compiled so
// (tests/cuda/CMakeLists.txt) are linked with kernel_races.cc instead of the sanitizer, which knows no fibers. A barrier of
// the block orders what its threads do; __syncwarp and shuffles are not taken to. Nothing orders two blocks.
#pragma once

#include <string>
#include <vector>

namespace hookline::testing {

/// What the launches since the last call did wrong, a line for each pair of threads; at most ten.
std::vector<std::string> take_kernel_races();

}  // namespace hookline::testing
