#include "parallel/tensors/safetensors.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 13> kDtypes{{{"F64", at::kDouble},
                                                                          {"F32", at::kFloat},
                                                                          {"F16", at::kHalf},
                                                                          {"BF16", at::kBFloat16},
                                                                          {"I64", at::kLong},
                                                                          {"I32", at::kInt},
                                                                          {"I16", at::kShort},
                                                                          {"I8", at::kChar},
                                                                          {"U64", at::kUInt64},
                                                                          {"U32", at::kUInt32},
                                                                          {"U16", at::kUInt16},
                                                                          {"U8", at::kByte},
                                                                          {"BOOL", at::kBool}}};

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem) {
  throw Error("'" + file.string() + "' " + problem);
}

at::ScalarType dtype_named(const std::string& name) {
  for (const auto& [text, dtype] : kDtypes) {
    if (name == text) return dtype;
  }
  throw Error("there is no dtype '" + name + "'");  // not reached: the header's reader checks dtypes
}

std::string name_of(const std::filesystem::path& file, const std::string& tensor, at::ScalarType dtype) {
  for (const auto& [text, known] : kDtypes) {
    if (dtype == known) return text;
  }
  fail(file, "can't hold '" + tensor + "', a tensor of " + c10::toString(dtype));
}

}  // namespace

at::Tensor read_tensor(const std::filesystem::path& file, const TensorFileHeader& header,
                       const TensorRow& row) {
  InputFile stream(file);
  if (!stream) fail(file, "can't be read: " + stream.why());
  const at::Tensor tensor =
      at::empty(std::vector<std::int64_t>(row.shape.begin(), row.shape.end()), dtype_named(row.dtype));
  stream.seekg(static_cast<std::streamoff>(header.data_begin + row.begin));
  stream.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(row.end - row.begin));
  if (!stream) fail(file, "can't be read to its end");
  return tensor;
}

NamedTensors read_safetensors(const std::filesystem::path& file) {
  const TensorFileHeader header = read_tensor_header(file);
  NamedTensors tensors;
  for (const TensorRow& row : header.tensors) tensors.emplace(row.name, read_tensor(file, header, row));
  return tensors;
}

FileRecord write_tensor_file(const std::filesystem::path& file, const NamedTensors& tensors,
                             const std::map<std::string, std::string>& metadata) {
  std::vector<TensorRow> rows;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto sizes = tensor.sizes();
    rows.push_back({name,
                    name_of(file, name, tensor.scalar_type()),
                    {sizes.begin(), sizes.end()},
                    offset,
                    offset + tensor.nbytes()});
    offset += tensor.nbytes();
  }
  const std::string header = header_bytes(metadata, rows);
  DurableFile out(file);
  out.write(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor whole = tensor.contiguous();
    out.write(whole.const_data_ptr(), whole.nbytes());
  }
  return out.finish();
}

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors) {
  const std::filesystem::path part = file.string() + ".part";
  std::error_code error;
  try {
    write_tensor_file(part, tensors, {});
    std::filesystem::rename(part, file, error);
    if (error) fail(file, "can't be written: " + error.message());
  } catch (...) {
    std::filesystem::remove(part, error);
    throw;
  }
}

}  // namespace hookline
