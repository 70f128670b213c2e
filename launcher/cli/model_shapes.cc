#include "launcher/cli/model_shapes.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/tensor_file.h"
#include "hooks/error.h"
#include "hooks/regular_file.h"
#include "launcher/cli/arguments.h"
#include "launcher/cli/libexec.h"
#include "launcher/supervise/shell.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

// How files of torch's begin: zip archives, and the pickle of a number in older ones. No safetensors file begins so: its
// header would be longer than any.
constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kBareMagic =
    "\x80\x02\x8a\nl\xfc\x9c"
    "F\xf9 j\xa8P\x19";
constexpr const char* kAdvice = "save its state_dict() with today's torch.save, or as safetensors";

/// Above 0, in digits alone.
std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size() && number > 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

/// Throws UsageError if the file can't be read.
bool begins_with(const fs::path& file, std::string_view magic) {
  std::string start(magic.size(), '\0');
  InputFile in(file);
  if (!in) throw UsageError("'" + file.string() + "' can't be read: " + in.why());
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == magic;
}

std::vector<Shape> shapes_in_archive(const fs::path& file) {
  const Program reader = libexec_rank("model_shapes", "reads files of torch's");
  const CommandOutput output = output_of({reader.file.string(), file.string()});
  if (output.exit_code != 0) {
    throw UsageError("'" + file.string() + "' can't be read as a model of torch's: " + output.text + "\n  " +
                     kAdvice);
  }
  return nlohmann::json::parse(output.text).get<std::vector<Shape>>();
}

}  // namespace

Shape shape_of(const std::string& text) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
  Shape shape;
  std::int64_t elements = 1;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const auto size = whole_number(std::string_view(text).substr(begin, end - begin));
    if (!size)
      throw UsageError("--shape '" + text + "' is no shape: write its sizes as 1024x512, or 10 for a vector");
    if (*size > kMostElements / elements)
      throw UsageError("--shape '" + text + "' has more elements than any machine holds (2^50 are the most)");
    elements *= *size;
    shape.push_back(*size);
    begin = end + 1;
  }
  return shape;
}

std::vector<Shape> shapes_in(const fs::path& named) {
  const fs::path file = fs::is_directory(named) ? locate(named) / "model.safetensors" : named;
  if (!fs::exists(file))
    throw UsageError("'" + named.string() + "' is no model file, and no checkpoint: '" + file.string() +
                     "' is not there");
  std::vector<Shape> shapes;
  if (begins_with(file, kZipMagic)) {
    shapes = shapes_in_archive(file);
  } else if (begins_with(file, kBareMagic)) {
    throw UsageError("'" + file.string() + "' is of the format before torch 1.6; " + kAdvice);
  } else {
    try {
      for (const TensorRow& row : read_tensor_header(file).tensors) {
        if (row.dtype == "F32" || row.dtype == "F16" || row.dtype == "BF16" || row.dtype == "F64")
          shapes.emplace_back(row.shape.begin(), row.shape.end());
      }
    } catch (const Error& error) {
      throw UsageError(std::string(error.what()) + "; nor is it a .pt file, which is a zip archive");
    }
  }
  if (shapes.empty())
    throw UsageError("'" + file.string() + "' holds no parameters: no tensor of floating-point numbers");
  return shapes;
}

}  // namespace hookline
