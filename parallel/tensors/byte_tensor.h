// Bytes as tensors [n] of uint8.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace hookline {

at::Tensor tensor_of_bytes(std::string_view bytes);
std::string bytes_of_tensor(const at::Tensor& tensor);

/// What torch::save would write.
at::Tensor tensor_of_archive(torch::serialize::OutputArchive& archive);
/// Throws c10::Error if `tensor` holds no archive.
void open_archive(torch::serialize::InputArchive& archive, const at::Tensor& tensor);

}  // namespace hookline
