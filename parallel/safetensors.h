// Tensors in a file, by name: the safetensors format.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace hookline {

/// By name, in the order of names.
using NamedTensors = std::map<std::string, at::Tensor>;

/// Reads float64, float32, float16 and bfloat16 tensors, into memory of their own. Throws Error, which names the file,
/// if it can't be read, is cut short, is no safetensors file, or holds another dtype.
/// Source: huggingface.co/docs/safetensors: a length in 8 bytes, a JSON header, the tensors' bytes.
NamedTensors read_safetensors(const std::filesystem::path& file);

/// Writes CPU tensors of these dtypes: to a file beside it first, which then takes the name, so that a reader never
/// sees half of one. Throws Error, which names the file.
void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors);

}  // namespace hookline
