// What a safetensors file holds, without its tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hookline {

struct TensorRow {
  std::string name;
  std::string dtype;  // as the format spells it: F32, BF16, I64, U8
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // in bytes, from TensorFileHeader::data_begin
};

/// The header of a safetensors file. Source: huggingface.co/docs/safetensors: a length in 8 bytes, JSON, the
/// tensors' bytes.
struct TensorFileHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorRow> tensors;
  std::uint64_t data_begin = 0;
};

/// Reads and checks a header: every tensor lies inside the file and has the bytes that its shape and dtype
/// take. Throws Error, which names the file.
TensorFileHeader read_tensor_header(const std::filesystem::path& file);

/// The bytes that come before those of the tensors.
std::string header_bytes(const std::map<std::string, std::string>& metadata,
                         const std::vector<TensorRow>& tensors);

/// Bytes of an element; 0 for a dtype that is not read: float8 and complex numbers.
std::uint64_t dtype_bytes(const std::string& dtype);

}  // namespace hookline
