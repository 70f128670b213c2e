#include "parallel/tensors/byte_tensor.h"

#include <ATen/ops/empty.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstring>

namespace hookline {

at::Tensor tensor_of_bytes(std::string_view bytes) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string bytes_of_tensor(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor tensor_of_archive(torch::serialize::OutputArchive& archive) {
  std::string bytes;
  archive.save_to([&](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  return tensor_of_bytes(bytes);
}

void open_archive(torch::serialize::InputArchive& archive, const at::Tensor& tensor) {
  archive.load_from(static_cast<const char*>(tensor.const_data_ptr()),
                    static_cast<std::size_t>(tensor.numel()));
}

}  // namespace hookline
