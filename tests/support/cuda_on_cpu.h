// Runs CUDA kernels on the CPU, for tests without a GPU. A .cu file that is included after this header
// compiles as C++ (tests/cuda/power_sgd_kernels_on_cpu.cc), provided that it launches its kernels with
// cudaLaunchKernelEx.
//
// Blocks run one after another, and the threads of a block as fibers of the calling thread. Each warp runs as
// far as it can: until all of its threads wait at a barrier of the block. A missing barrier therefore shows
// when `order` changes, or as a NaN from shared memory that has not been written yet. Threads that wait for
// something impossible raise a KernelFault instead of hanging. The address sanitizer finds accesses past the
// end of a shared variable, and past the end of a buffer that is allocated no larger than it has to be.
//
// There are no streams (a launch is finished when it returns), no atomics and no dynamic shared memory; only
// one launch may run in a process at a time. If a kernel faults or throws, variables of its suspended
// threads are not destroyed. g++ 12 does not put a template's static variables into a section, so shared
// memory declared in a template is not filled before a block.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>  // isfinite and the like in the global namespace, as nvcc has them

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/support/fiber.h"

#undef __shared__
#define __shared__ [[gnu::section("cuda_shared")]] static
#undef __launch_bounds__
#define __launch_bounds__(...)

// Marks code that is not part of the kernel, for kernel_races.h.
#define CUDA_ON_CPU_UNTRACED [[gnu::no_sanitize_thread]]

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace cuda_on_cpu {

/// A kernel did something that would crash or hang on a GPU or is undefined there, or its launch needs what
/// this header does not support.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

/// The order of blocks in a grid, of warps between two barriers, and of a warp's threads between two
/// shuffles.
enum class Order { forward, reverse, shuffled };
inline Order order = Order::forward;
inline std::mt19937 shuffle_with;

inline unsigned launches = 0;  // number of launches so far

inline std::vector<unsigned> arranged(unsigned count) {
  std::vector<unsigned> indices(count);
  std::iota(indices.begin(), indices.end(), 0U);
  if (order == Order::reverse) std::reverse(indices.begin(), indices.end());
  if (order == Order::shuffled) std::shuffle(indices.begin(), indices.end(), shuffle_with);
  return indices;
}

inline hookline::testing::Fiber scheduler;
void run_bodies();

/// One thread of a block; reused for the following blocks.
struct Thread {
  enum class State { ready, at_barrier, at_shuffle, ended };

  bool waits_as(const Thread& other) const {
    return state == other.state && mask == other.mask && line == other.line && file == other.file &&
           function == other.function;
  }
  std::string doing() const {
    if (state == State::ended) return "has ended";
    return "waits at " + std::string(function) + " (" + std::string(file.substr(file.rfind('/') + 1)) + ":" +
           std::to_string(line) + ")";
  }

  hookline::testing::Fiber fiber{run_bodies};
  State state = State::ready;
  std::string_view function, file;  // location of its wait
  int line = 0;
  unsigned mask = 0, source = 0;  // of its shuffle: participating lanes, source lane
  std::uint64_t given = 0, received = 0;
};

inline constexpr unsigned kWarp = 32;

inline std::vector<std::unique_ptr<Thread>> threads;  // as many as in the largest block so far
inline unsigned count;                                // threads per block
inline unsigned running;                              // index of the running thread
inline std::function<void()> body;                    // the kernel and its arguments
inline std::exception_ptr failure;                    // exception of a kernel body
inline bool inside_kernel = false;                    // false while the emulator itself runs

// For kernel_races.h: `ticks` is incremented with each launch, block and barrier; the others are its values
// when the current launch and the current block began.
inline std::uint64_t ticks = 0, launch_began = 0, block_began = 0;

[[noreturn]] inline void fault(unsigned thread, const std::string& what) {
  throw KernelFault("thread " + std::to_string(thread) + " of block (" + std::to_string(blockIdx.x) + ", " +
                    std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ") " + what);
}

CUDA_ON_CPU_UNTRACED inline void run_bodies() {
  Thread& self = *threads[running];
  self.fiber.arrive_from(scheduler);
  for (;;) {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
    self.state = Thread::State::ended;
    self.fiber.switch_to(scheduler);
  }
}

CUDA_ON_CPU_UNTRACED inline void resume(unsigned thread) {
  running = thread;
  threadIdx.x = thread % blockDim.x;
  threadIdx.y = thread / blockDim.x % blockDim.y;
  threadIdx.z = thread / (blockDim.x * blockDim.y);
  inside_kernel = true;
  scheduler.switch_to(threads[thread]->fiber);
  inside_kernel = false;
  if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
}

CUDA_ON_CPU_UNTRACED inline void wait(Thread::State state, const char* function, unsigned mask,
                                      const char* file, int line) {
  Thread& self = *threads[running];
  self.state = state;
  self.function = function;
  self.mask = mask;
  self.file = file;
  self.line = line;
  self.fiber.switch_to(scheduler);
}

/// Gives each of `lanes`, which wait at the same shuffle of a warp, the value it requests.
inline void exchange_values(unsigned warp, unsigned lanes) {
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    Thread& self = *threads[warp + lane];
    if (!(lanes >> self.source & 1))
      fault(warp + lane, self.doing() + " for the value of lane " + std::to_string(self.source) + ", which " +
                             (!(self.mask >> self.source & 1) ? "its mask leaves out"
                              : warp + self.source < count    ? "has ended"
                                                              : "does not exist"));
    self.received = threads[warp + self.source]->given;
  }
}

/// Releases the threads of a warp that wait at a shuffle where all lanes of its mask have arrived; threads
/// that have ended need not arrive. `warp`: the warp's first thread. Returns false if it released none.
inline bool release_warp(unsigned warp) {
  bool any = false;
  for (unsigned waiting = warp; waiting < std::min(count, warp + kWarp); ++waiting) {
    const Thread& self = *threads[waiting];
    if (self.state != Thread::State::at_shuffle) continue;
    unsigned lanes = 0;
    bool complete = true;
    for (unsigned lane = 0; lane < kWarp && warp + lane < count; ++lane) {
      const Thread& other = *threads[warp + lane];
      if (!(self.mask >> lane & 1) || other.state == Thread::State::ended) continue;
      lanes |= 1U << lane;
      complete = complete && other.waits_as(self);
    }
    if (!complete) continue;
    exchange_values(warp, lanes);
    for (unsigned lane = 0; lane < kWarp; ++lane)
      if (lanes >> lane & 1) threads[warp + lane]->state = Thread::State::ready;
    any = true;
  }
  return any;
}

/// Releases all threads if they wait at the same barrier. Returns false if all have ended; throws if some
/// wait in vain.
inline bool release_block() {
  const auto ended = [](unsigned thread) { return threads[thread]->state == Thread::State::ended; };
  unsigned waiting = 0;
  while (waiting < count && ended(waiting)) ++waiting;
  if (waiting == count) return false;
  const Thread& self = *threads[waiting];
  const bool shuffles = self.state == Thread::State::at_shuffle;
  for (unsigned other = 0; other < count; ++other) {
    const bool awaited =
        !shuffles || (other / kWarp == waiting / kWarp && self.mask >> other % kWarp & 1 && !ended(other));
    if (awaited && !threads[other]->waits_as(self))
      fault(waiting, self.doing() + ", and thread " + std::to_string(other) + " " + threads[other]->doing());
  }
  for (unsigned thread = 0; thread < count; ++thread) threads[thread]->state = Thread::State::ready;
  ++ticks;
  return true;
}

// The linker's symbols for the section's bounds; absent if no kernel has shared memory.
extern "C" [[gnu::weak]] unsigned char __start_cuda_shared[], __stop_cuda_shared[];

/// Fills shared memory with bytes that no kernel should read: NaN as a float, -1 as an integer. Also fills
/// the sanitizer's redzones around variables.
[[gnu::no_sanitize_address]] inline void fill_shared_memory() {
  for (volatile unsigned char* byte = __start_cuda_shared; byte != __stop_cuda_shared; ++byte) *byte = 0xFF;
}

inline void run_block(unsigned block) {
  blockIdx.x = block % gridDim.x;
  blockIdx.y = block / gridDim.x % gridDim.y;
  blockIdx.z = block / (gridDim.x * gridDim.y);
  fill_shared_memory();
  block_began = ++ticks;
  for (unsigned thread = 0; thread < count; ++thread) threads[thread]->state = Thread::State::ready;
  do {
    for (const unsigned number : arranged((count + kWarp - 1) / kWarp)) {
      const unsigned warp = number * kWarp;
      do {
        for (const unsigned lane : arranged(std::min(count - warp, kWarp)))
          if (threads[warp + lane]->state == Thread::State::ready) resume(warp + lane);
      } while (release_warp(warp));
    }
  } while (release_block());
}

inline cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> kernel) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const auto within = [](unsigned size, unsigned most) { return size >= 1 && size <= most; };
  if (!within(grid.x, 0x7FFFFFFF) || !within(grid.y, 65535) || !within(grid.z, 65535) ||
      !within(block.x, 1024) || !within(block.y, 1024) || !within(block.z, 64) ||
      block.x * block.y * block.z > 1024)
    return cudaErrorInvalidConfiguration;
  if (config.dynamicSmemBytes != 0 || config.numAttrs != 0)
    throw KernelFault("cuda_on_cpu.h supports neither dynamic shared memory nor launch attributes");
  gridDim = grid;
  blockDim = block;
  count = block.x * block.y * block.z;
  body = std::move(kernel);
  launch_began = ++ticks;
  ++launches;
  while (threads.size() < count) threads.push_back(std::make_unique<Thread>());
  const std::uint64_t blocks = std::uint64_t{1} * grid.x * grid.y * grid.z;
  if (blocks > 1U << 27) throw KernelFault("cuda_on_cpu.h runs no more than 2^27 blocks");
  try {
    for (const unsigned index : arranged(static_cast<unsigned>(blocks))) run_block(index);
  } catch (...) {
    threads.clear();  // some are still inside the kernel
    throw;
  }
  return cudaSuccess;
}

/// `source_of(lane, first, width)` returns the lane whose value a lane gets. A warp is divided into parts of
/// `width` lanes; `first` is the first lane of the lane's part.
template <typename T, typename SourceOf>
CUDA_ON_CPU_UNTRACED T shuffle(const char* function, unsigned mask, T value, int width, SourceOf source_of,
                               const char* file, int line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Thread::given));
  if (width < 1 || width > static_cast<int>(kWarp) || !std::has_single_bit(static_cast<unsigned>(width)))
    fault(running, "calls " + std::string(function) + " with width " + std::to_string(width) +
                       ", which is not a power of 2 up to 32");
  const unsigned lane = running % kWarp, part = static_cast<unsigned>(width);
  if (!(mask >> lane & 1))
    fault(running, "calls " + std::string(function) + " with a mask that leaves it out");
  Thread& self = *threads[running];
  std::memcpy(&self.given, &value, sizeof(T));
  self.source = source_of(lane, lane - lane % part, part);
  wait(Thread::State::at_shuffle, function, mask, file, line);
  std::memcpy(&value, &self.received, sizeof(T));
  return value;
}

}  // namespace cuda_on_cpu

// Functions that kernels call.

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  cuda_on_cpu::wait(cuda_on_cpu::Thread::State::at_barrier, "__syncthreads", 0, file, line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  const auto own = [](unsigned lane, unsigned, unsigned) { return lane; };
  cuda_on_cpu::shuffle("__syncwarp", mask, 0, 32, own, file, line);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  const auto picked = [source](unsigned, unsigned first, unsigned part) {
    return first + static_cast<unsigned>(source) % part;
  };
  return cuda_on_cpu::shuffle("__shfl_sync", mask, value, width, picked, file, line);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  const auto below = [delta](unsigned lane, unsigned first, unsigned) {
    return lane - first >= delta ? lane - delta : lane;
  };
  return cuda_on_cpu::shuffle("__shfl_up_sync", mask, value, width, below, file, line);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const auto above = [delta](unsigned lane, unsigned first, unsigned part) {
    return delta < first + part - lane ? lane + delta : lane;
  };
  return cuda_on_cpu::shuffle("__shfl_down_sync", mask, value, width, above, file, line);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int flipped, int width = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const auto across = [flipped](unsigned lane, unsigned first, unsigned part) {
    const unsigned other = lane ^ static_cast<unsigned>(flipped);
    return other < first + part ? other : lane;
  };
  return cuda_on_cpu::shuffle("__shfl_xor_sync", mask, value, width, across, file, line);
}

/// Like the CUDA runtime's, but the launch has finished or failed when it returns.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  return cuda_on_cpu::launch(*config, [&] { std::apply(kernel, values); });
}
