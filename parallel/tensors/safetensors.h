// Tensors in a file, by name: the safetensors format.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/durable_file.h"
#include "checkpoint/tensor_file.h"

namespace hookline {

/// By name, in the order of names.
using NamedTensors = std::map<std::string, at::Tensor>;

/// Reads all tensors, into memory of their own. Throws Error, which names the file, if it can't be read, is
/// cut short or is not a safetensors file.
NamedTensors read_safetensors(const std::filesystem::path& file);

/// The tensor that `row` of the file's header describes. Throws Error.
at::Tensor read_tensor(const std::filesystem::path& file, const TensorFileHeader& header,
                       const TensorRow& row);

/// Writes CPU tensors of float16, bfloat16, float32, float64, an integer dtype or bool: to a file beside it
/// first, which then takes the name, so that a reader never sees half of one. Throws Error, which names the
/// file.
void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors);

/// The same under the file's own name from the start, with `metadata` in its header; it is on the disk when
/// this returns.
FileRecord write_tensor_file(const std::filesystem::path& file, const NamedTensors& tensors,
                             const std::map<std::string, std::string>& metadata);

}  // namespace hookline
