// Where tests run kernels: on a GPU if ON_GPU is defined, else as fibers (support/cuda_on_cpu.h).
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/sanitized.h"

#ifdef ON_GPU
#include "config/visible_gpus.h"
#else
#include "tests/support/cuda_on_cpu.h"
#endif

namespace hookline::testing {

#ifdef ON_GPU
inline constexpr bool kOnGpu = true;

inline bool can_run_kernels() { return visible_gpus() > 0; }

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

/// An array accessible to kernels.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, std::max<std::size_t>(1, bytes())));
    memory_.reset(static_cast<T*>(memory));
    check(cudaMemcpy(memory, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  T* data() { return memory_.get(); }

  /// Waits for the launched kernels, then returns the values.
  std::vector<T> values() const {
    std::vector<T> copy(size_);
    check(cudaMemcpy(copy.data(), memory_.get(), bytes(), cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  struct Free {
    void operator()(T* memory) const { cudaFree(memory); }
  };
  std::size_t bytes() const { return size_ * sizeof(T); }

  std::size_t size_;
  std::unique_ptr<T, Free> memory_;
};

/// Returns the result of `run`, which must not depend on thread order; on a GPU, it is repeated instead.
template <typename Run>
auto in_each_order(Run run) {
  auto first = run();
  for (int time = 0; time < 3; ++time) EXPECT_EQ(first, run());
  return first;
}

#else
inline constexpr bool kOnGpu = false;

inline bool can_run_kernels() { return true; }

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error("CUDA: error " + std::to_string(error));
}

/// An array accessible to kernels. As on a GPU, it is aligned to 256 bytes; it ends where its values end, so
/// that the address sanitizer detects overruns.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values)
      : size_(values.size()), memory_(static_cast<T*>(::operator new(size_ * sizeof(T), kAlignment))) {
    std::uninitialized_copy(values.begin(), values.end(), memory_.get());
  }
  T* data() { return memory_.get(); }
  std::vector<T> values() const { return {memory_.get(), memory_.get() + size_}; }

 private:
  static constexpr std::align_val_t kAlignment{256};
  struct Free {
    void operator()(T* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::size_t size_;
  std::unique_ptr<T, Free> memory_;
};

/// Returns the result of `run`, which must be the same for every thread order. A sanitizer finds the same in
/// each, so under one only the first order runs.
template <typename Run>
auto in_each_order(Run run) {
  auto first = run();
  if (kSanitized) return first;
  for (const auto order : {cuda_on_cpu::Order::reverse, cuda_on_cpu::Order::shuffled}) {
    cuda_on_cpu::order = order;
    EXPECT_EQ(first, run());
  }
  cuda_on_cpu::order = cuda_on_cpu::Order::forward;
  return first;
}

#endif

}  // namespace hookline::testing
