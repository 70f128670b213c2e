#include "checkpoint/tensor_file.h"

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "hooks/error.h"
#include "hooks/regular_file.h"

namespace hookline {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
const char* const kMetadata = "__metadata__";

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem) {
  throw Error("'" + file.string() + "' " + problem);
}

TensorRow row_of(const std::filesystem::path& file, const std::string& name, const nlohmann::json& json,
                 std::uint64_t data_bytes) {
  TensorRow row{name, json.at("dtype").get<std::string>(), json.at("shape").get<std::vector<std::uint64_t>>(),
                0, 0};
  std::tie(row.begin, row.end) = json.at("data_offsets").get<std::pair<std::uint64_t, std::uint64_t>>();
  std::uint64_t bytes = dtype_bytes(row.dtype);
  if (bytes == 0)
    fail(file, "holds '" + name + "' as " + row.dtype + ", a dtype that hookline does not read");
  bool fits = true;
  for (const std::uint64_t size : row.shape) fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
  if (!fits || row.begin > row.end || row.end > data_bytes || row.end - row.begin != bytes)
    fail(file, "is cut short or damaged: the bytes of '" + name + "' are not where its header says");
  return row;
}

}  // namespace

std::uint64_t dtype_bytes(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> bytes{
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2},
      {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1}};
  const auto found = bytes.find(dtype);
  return found == bytes.end() ? 0 : found->second;
}

TensorFileHeader read_tensor_header(const std::filesystem::path& file) {
  InputFile stream(file);
  if (!stream) fail(file, "can't be read: " + stream.why());
  const std::uint64_t file_bytes = stream.bytes();
  std::uint64_t length = 0;
  stream.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!stream || length > kLongestHeader || length > file_bytes - sizeof length)
    fail(file, "is no safetensors file, or is cut short: its first 8 bytes give no header's length");
  std::string text(length, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(length));
  TensorFileHeader header;
  header.data_begin = sizeof length + length;
  try {
    const auto rows = nlohmann::ordered_json::parse(text);
    for (const auto& [name, row] : rows.items()) {
      if (name == kMetadata) {
        header.metadata = row.get<std::map<std::string, std::string>>();
      } else {
        header.tensors.push_back(row_of(file, name, row, file_bytes - header.data_begin));
      }
    }
  } catch (const nlohmann::json::exception& problem) {
    fail(file,
         std::string("is no safetensors file, or is damaged: its header can't be read: ") + problem.what());
  }
  return header;
}

std::string header_bytes(const std::map<std::string, std::string>& metadata,
                         const std::vector<TensorRow>& tensors) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::object();
  if (!metadata.empty()) rows[kMetadata] = metadata;
  for (const TensorRow& row : tensors)
    rows[row.name] = {{"dtype", row.dtype}, {"shape", row.shape}, {"data_offsets", {row.begin, row.end}}};
  std::string json = rows.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

}  // namespace hookline
