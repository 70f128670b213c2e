// A tensor whose memory can be taken away and given back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace hookline {

/// Its tensor shares one storage with every view of it that anybody keeps, autograd included. While the
/// window is open, that is the memory that it was given; while it is closed, whatever reads or writes it
/// throws c10::Error with the window's message. Sizes and strides can be asked for at any time.
///
/// Not synchronised.
class MemoryWindow {
 public:
  /// Closed.
  MemoryWindow(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options,
               std::string message);

  MemoryWindow(MemoryWindow&&) = default;

  const at::Tensor& tensor() const { return tensor_; }
  const std::string& message() const { return message_; }
  bool is_open() const { return is_open_; }

  /// Onto the elements of `memory`, one-dimensional, from `first` on. Keeps the memory alive until it is
  /// closed.
  void open(const at::Tensor& memory, std::int64_t first);
  void close();

 private:
  at::Tensor tensor_;
  std::string message_;
  bool is_open_ = false;
};

/// Frees the memory of `storage` for good: whatever uses it from now on throws c10::Error with `message`.
void close_for_good(c10::StorageImpl& storage, const std::string& message);

}  // namespace hookline
