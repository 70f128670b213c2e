// Work on libtorch's own threads.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace hookline {

/// Calls run(begin, end) for ranges that together make up 0 … count, at the same time on different threads:
/// as many as libtorch uses (at::get_num_threads), if each has `grain` or more to do. Waits for all; an
/// exception of `run` is rethrown.
void in_parallel(std::int64_t count, std::int64_t grain,
                 c10::function_ref<void(std::int64_t begin, std::int64_t end)> run);

}  // namespace hookline
