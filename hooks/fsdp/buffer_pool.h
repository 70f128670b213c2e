// Memory that one step of a sharded model gives back and the next one takes again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hookline {

/// Buffers for whole parameters and gradients, which come and go with every unit: malloc either hands them back to the system,
/// whose fresh pages cost more than a gather does, or strews them over the heap. On a GPU torch's own allocator does this.
///
/// Thread-safe. Buffers outlive the pool as long as they are used.
class BufferPool {
 public:
  BufferPool();
  ~BufferPool();

  /// At least `bytes`, whose contents are of an earlier use.
  at::DataPtr allocate(std::size_t bytes, c10::Device device);
  /// A tensor [numel] in such memory.
  at::Tensor empty(std::int64_t numel, const at::TensorOptions& options);

  /// Hands back to the system what was not taken since the last call. Once a step.
  void end_step();

 private:
  struct Free;

  std::shared_ptr<Free> free_;
};

}  // namespace hookline
