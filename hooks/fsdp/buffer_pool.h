// Reuses the memory of a sharded model's buffers from step to step.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hookline {

/// Buffers for unsharded parameters and gradients, which every unit allocates and frees. malloc would return
/// them to the system, whose fresh pages cost more than a gather, or fragment the heap. On a GPU, torch's
/// allocator is used instead.
///
/// Thread-safe. Buffers outlive the pool as long as they are used.
class BufferPool {
 public:
  BufferPool();
  ~BufferPool();

  /// Allocates at least `bytes`, uninitialized.
  at::DataPtr allocate(std::size_t bytes, c10::Device device);
  /// A tensor [numel] in such memory.
  at::Tensor empty(std::int64_t numel, const at::TensorOptions& options);

  /// Frees buffers that were not used since the last call. Call it once per step.
  void end_step();

 private:
  struct Free;

  std::shared_ptr<Free> free_;
};

}  // namespace hookline
