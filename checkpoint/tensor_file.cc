#include "checkpoint/tensor_file.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::size_t kMostDimensions = 64;
const char* const kMetadata = "__metadata__";

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem) {
  throw Error("'" + file.string() + "' " + problem);
}

/// Reads a header's JSON event by event, so that it allocates only what a valid header needs. A parsed tree
/// would take up to 75 bytes of memory for each byte of JSON.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(TensorFileHeader& header) : header_(header) {}

  /// Why the JSON is not a header; empty if it is.
  const std::string& problem() const { return problem_; }

  bool null() override { return refuse("null stands where it has no meaning"); }
  bool boolean(bool) override { return refuse("true or false stands where it has no meaning"); }
  bool number_integer(number_integer_t) override { return refuse("a number is below 0"); }
  bool number_float(number_float_t, const string_t&) override { return refuse("a number is not an integer"); }
  bool binary(binary_t&) override { return refuse("it holds bytes"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ == Place::shape) {
      if (row_.shape.size() == kMostDimensions)
        return refuse("a tensor has more than " + std::to_string(kMostDimensions) + " dimensions");
      row_.shape.push_back(number);
      return true;
    }
    if (place_ != Place::offsets) return refuse("a number stands where it has no meaning");
    if (offsets_ == 2) return refuse("data_offsets has more than two numbers");
    (offsets_++ == 0 ? row_.begin : row_.end) = number;
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = std::move(text);
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return refuse("a string stands where it has no meaning");
    row_.dtype = std::move(text);
    has_dtype_ = true;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header && key_ == kMetadata) {
      place_ = Place::metadata;
    } else if (place_ == Place::header) {
      place_ = Place::tensor;
      row_ = TensorRow{std::move(key_), "", {}, 0, 0};
      has_dtype_ = has_shape_ = false;
      offsets_ = 0;
    } else {
      return refuse("an object stands where it has no meaning");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (!has_dtype_ || !has_shape_ || offsets_ != 2)
        return refuse("a tensor lacks its dtype, its shape or its two data_offsets");
      header_.tensors.push_back(std::move(row_));
    }
    place_ = place_ == Place::header ? Place::outside : Place::header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == "shape") {
      place_ = Place::shape;
      row_.shape.clear();
      has_shape_ = true;
    } else if (place_ == Place::tensor && key_ == "data_offsets") {
      place_ = Place::offsets;
      offsets_ = 0;
    } else {
      return refuse("an array stands where it has no meaning");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool key(string_t& name) override {
    if (place_ != Place::tensor && ++entries_ > kMostEntries)
      return refuse("it has more than " + std::to_string(kMostEntries) + " entries");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return refuse(error.what());
  }

 private:
  enum class Place { outside, header, metadata, tensor, shape, offsets };

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  TensorFileHeader& header_;
  std::string problem_, key_;
  Place place_ = Place::outside;
  TensorRow row_;
  bool has_dtype_ = false, has_shape_ = false;
  std::size_t offsets_ = 0, entries_ = 0;
};

void check_row(const std::filesystem::path& file, const TensorRow& row, std::uint64_t data_bytes) {
  std::uint64_t bytes = dtype_bytes(row.dtype);
  if (bytes == 0)
    fail(file, "holds '" + row.name + "' as " + row.dtype + ", a dtype that hookline does not read");
  bool fits = true;
  for (const std::uint64_t size : row.shape) {
    // Each size is checked by itself, too: a size of 0 makes the product 0, whatever the others are.
    fits = fits && size <= std::numeric_limits<std::int64_t>::max() &&
           !__builtin_mul_overflow(bytes, size, &bytes);
  }
  if (!fits || row.begin > row.end || row.end > data_bytes || row.end - row.begin != bytes)
    fail(file, "is cut short or damaged: the bytes of '" + row.name + "' are not where its header says");
}

/// Throws Error for names that occur twice and for tensors that overlap, which the format forbids: if a
/// million tensors shared their bytes, reading the file would take a million times its size.
void check_apart(const std::filesystem::path& file, const std::vector<TensorRow>& tensors) {
  std::vector<const TensorRow*> in_order;
  for (const TensorRow& row : tensors) in_order.push_back(&row);
  std::sort(in_order.begin(), in_order.end(),
            [](const TensorRow* a, const TensorRow* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < in_order.size(); ++i)
    if (in_order[i]->name == in_order[i - 1]->name)
      fail(file, "is damaged: its header names '" + in_order[i]->name + "' twice");
  std::sort(in_order.begin(), in_order.end(), [](const TensorRow* a, const TensorRow* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  for (std::size_t i = 1; i < in_order.size(); ++i)
    if (in_order[i]->begin < in_order[i - 1]->end)
      fail(file, "is damaged: '" + in_order[i - 1]->name + "' and '" + in_order[i]->name +
                     "' have bytes in common");
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
    fail(file, "is not a safetensors file, or is cut short: its first 8 bytes give no header's length");
  std::string text(length, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(length));
  TensorFileHeader header;
  header.data_begin = sizeof length + length;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(text, &reader))
    fail(file, "is not a safetensors file, or is damaged: its header can't be read: " + reader.problem());
  for (const TensorRow& row : header.tensors) check_row(file, row, file_bytes - header.data_begin);
  check_apart(file, header.tensors);
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
