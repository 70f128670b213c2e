#include "parallel/safetensors.h"

#include <ATen/ops/empty.h>

#include <array>
#include <bit>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "hooks/error.h"

namespace hookline {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit

constexpr std::array<std::pair<const char*, at::ScalarType>, 4> kDtypes{
    {{"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}}};

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem) {
  throw Error("'" + file.string() + "' " + problem);
}

std::optional<at::ScalarType> dtype_of(const std::string& name) {
  for (const auto& [text, dtype] : kDtypes) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

std::string read_header(const std::filesystem::path& file, std::ifstream& stream, std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  stream.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!stream || length > kLongestHeader || length > file_bytes - sizeof length) {
    fail(file, "is no safetensors file, or is cut short: its first 8 bytes give no header's length");
  }
  std::string header(length, '\0');
  stream.read(header.data(), static_cast<std::streamsize>(length));
  return header;
}

/// The tensor that `row` describes. `data` is where the tensors begin, `data_bytes` what there is of them.
at::Tensor read_tensor(const std::filesystem::path& file, std::ifstream& stream, const std::string& name,
                       const nlohmann::json& row, std::uint64_t data, std::uint64_t data_bytes) {
  const auto dtype_name = row.at("dtype").get<std::string>();
  const auto dtype = dtype_of(dtype_name);
  if (!dtype)
    fail(file, "holds '" + name + "' as " + dtype_name + ": only F64, F32, F16 and BF16 can be read");
  const auto shape = row.at("shape").get<std::vector<std::uint64_t>>();
  const auto [begin, end] = row.at("data_offsets").get<std::pair<std::uint64_t, std::uint64_t>>();
  std::uint64_t bytes = c10::elementSize(*dtype);
  bool fits = true;
  for (const std::uint64_t size : shape) fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
  if (!fits || begin > end || end > data_bytes || end - begin != bytes) {
    fail(file, "is cut short or damaged: the bytes of '" + name + "' are not where its header says");
  }
  const at::Tensor tensor = at::empty(std::vector<std::int64_t>(shape.begin(), shape.end()), *dtype);
  stream.seekg(static_cast<std::streamoff>(data + begin));
  stream.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(bytes));
  if (!stream) fail(file, "can't be read to its end");
  return tensor;
}

}  // namespace

NamedTensors read_safetensors(const std::filesystem::path& file) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(file, error);
  if (error) fail(file, "can't be read: " + error.message());
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, "can't be opened");
  const std::string header = read_header(file, stream, file_bytes);
  const std::uint64_t data = sizeof(std::uint64_t) + header.size();
  NamedTensors tensors;
  try {
    const auto rows = nlohmann::json::parse(header);
    for (const auto& [name, row] : rows.items()) {
      if (name != "__metadata__") {
        tensors.emplace(name, read_tensor(file, stream, name, row, data, file_bytes - data));
      }
    }
  } catch (const nlohmann::json::exception& problem) {
    fail(file,
         std::string("is no safetensors file, or is damaged: its header can't be read: ") + problem.what());
  }
  return tensors;
}

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    std::string dtype;
    for (const auto& [text, known] : kDtypes) {
      if (tensor.scalar_type() == known) dtype = text;
    }
    if (dtype.empty())
      fail(file, "can't hold '" + name + "', a tensor of " + c10::toString(tensor.scalar_type()));
    rows[name] = {{"dtype", dtype},
                  {"shape", tensor.sizes().vec()},
                  {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string header = rows.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::filesystem::path part = file.string() + ".part";
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  const std::uint64_t length = header.size();
  stream.write(reinterpret_cast<const char*>(&length), sizeof length);
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor whole = tensor.contiguous();
    stream.write(static_cast<const char*>(whole.const_data_ptr()),
                 static_cast<std::streamsize>(whole.nbytes()));
  }
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(part, file, error);
  if (!stream || error) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    fail(file, "can't be written: " +
                   (error ? error.message() : std::string("is the disk full, or the folder there?")));
  }
}

}  // namespace hookline
