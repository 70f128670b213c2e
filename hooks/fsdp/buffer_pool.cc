#include "hooks/fsdp/buffer_pool.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>
#include <utility>

namespace hookline {

/// The unused buffers.
struct BufferPool::Free {
  struct Buffer {
    at::DataPtr memory;
    bool was_used = true;  // since the last end_step()
  };
  std::mutex mutex;
  std::multimap<std::size_t, Buffer> by_bytes;
};

namespace {

/// A buffer serves a request if it is at most this many times as large.
constexpr std::size_t kLargestWaste = 2;

}  // namespace

BufferPool::BufferPool() : free_(std::make_shared<Free>()) {}
BufferPool::~BufferPool() = default;

at::DataPtr BufferPool::allocate(std::size_t bytes, c10::Device device) {
  if (!device.is_cpu()) return c10::GetAllocator(device.type())->allocate(bytes);
  at::DataPtr memory;
  {
    const std::lock_guard lock(free_->mutex);
    const auto found = free_->by_bytes.lower_bound(bytes);
    if (found != free_->by_bytes.end() && found->first / kLargestWaste <= bytes) {
      bytes = found->first;
      memory = std::move(found->second.memory);
      free_->by_bytes.erase(found);
    }
  }
  if (!memory) memory = c10::GetCPUAllocator()->allocate(bytes);

  /// Returns the memory to the pool, if the pool still exists.
  struct Lease {
    std::weak_ptr<Free> pool;
    std::size_t bytes;
    at::DataPtr memory;
  };
  auto* lease = new Lease{free_, bytes, std::move(memory)};
  return {lease->memory.get(), lease,
          [](void* context) {
            const std::unique_ptr<Lease> ended(static_cast<Lease*>(context));
            if (const auto pool = ended->pool.lock()) {
              const std::lock_guard lock(pool->mutex);
              pool->by_bytes.emplace(ended->bytes, Free::Buffer{std::move(ended->memory)});
            }
          },
          device};
}

at::Tensor BufferPool::empty(std::int64_t numel, const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return at::empty({numel}, options);
  auto memory = std::make_shared<at::DataPtr>(
      allocate(static_cast<std::size_t>(numel) * options.dtype().itemsize(), options.device()));
  void* const data = memory->get();
  return at::from_blob(
      data, {numel}, [memory](void*) mutable { memory.reset(); }, options);
}

void BufferPool::end_step() {
  std::multimap<std::size_t, Free::Buffer> unused;
  const std::lock_guard lock(free_->mutex);
  for (auto buffer = free_->by_bytes.begin(); buffer != free_->by_bytes.end();) {
    if (std::exchange(buffer->second.was_used, false))
      ++buffer;
    else
      unused.insert(free_->by_bytes.extract(buffer++));
  }
}

}  // namespace hookline
