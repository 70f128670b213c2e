#include "parallel/tensors/memory_window.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <utility>

namespace hookline {
namespace {

/// Makes every access to a storage's data throw, or not. The flag is torch's own, which every access checks;
/// torch sets it, but never clears it. Without it, a kernel that reads an empty storage would crash.
void set_throws_on_access(c10::StorageImpl& storage, bool throws);
template <bool c10::StorageImpl::*flag>
struct ReachIntoStorage {  // an explicit instantiation may name what is private
  friend void set_throws_on_access(c10::StorageImpl& storage, bool throws) { storage.*flag = throws; }
};
template struct ReachIntoStorage<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

void set_memory(c10::StorageImpl& storage, at::DataPtr memory, bool throws) {
  set_throws_on_access(storage, throws);
  storage.set_data_ptr_noswap(std::move(memory));  // this, too, checks the flag
}

void let_go(void* storage) { delete static_cast<c10::Storage*>(storage); }

}  // namespace

MemoryWindow::MemoryWindow(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options,
                           std::string message)
    : message_(std::move(message)) {
  const at::NoGradGuard no_grad;
  const c10::Device device = options.device();
  std::size_t bytes = options.dtype().itemsize();
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  c10::Storage storage(c10::make_storage_impl(c10::StorageImpl::use_byte_size_t(), bytes,
                                              at::DataPtr(nullptr, device), c10::GetAllocator(device.type()),
                                              /*resizable=*/false, device));
  tensor_ = at::empty({0}, options.requires_grad(false)).set_(storage, 0, sizes, strides);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(message_);
}

void MemoryWindow::open(const at::Tensor& memory, std::int64_t first) {
  if (std::exchange(is_open_, true)) return;
  auto owner = std::make_unique<c10::Storage>(memory.storage());
  void* const data =
      static_cast<char*>(memory.mutable_data_ptr()) + first * static_cast<std::int64_t>(memory.itemsize());
  set_memory(*tensor_.storage().unsafeGetStorageImpl(),
             at::DataPtr(data, owner.release(), let_go, memory.device()), /*throws=*/false);
}

void MemoryWindow::close() {
  if (!std::exchange(is_open_, false)) return;
  set_memory(*tensor_.storage().unsafeGetStorageImpl(), at::DataPtr(nullptr, tensor_.device()),
             /*throws=*/true);
}

void close_for_good(c10::StorageImpl& storage, const std::string& message) {
  const c10::Device device = storage.device();
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(message);
  storage.set_resizable(false);
  set_memory(storage, at::DataPtr(nullptr, device), /*throws=*/true);
}

}  // namespace hookline
