#include "launcher/cli/advice/model_shapes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/folder_access.h"
#include "base/lines.h"
#include "base/regular_file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/tensor_file.h"
#include "launcher/cli/arguments.h"
#include "launcher/launch/libexec.h"
#include "launcher/process/limited_command.h"
#include "launcher/process/outcome.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

// First bytes of files that torch writes: a zip archive, or, before torch 1.6, the pickle of a number. No
// safetensors file begins like this: it would have a longer header than any file has.
constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kBareMagic =
    "\x80\x02\x8a\nl\xfc\x9c"
    "F\xf9 j\xa8P\x19";
constexpr const char* kAdvice = "save its state_dict() with today's torch.save, or as safetensors";

// Limits for the program that reads a list of tensors: far more than any model takes, which is under a
// second.
constexpr CommandLimits kReaderLimits{std::chrono::seconds(60), std::chrono::minutes(2)};

constexpr int kFirstOfSignals = 128;          // exit codes above it mean a signal
constexpr std::size_t kMostSizes = 16 << 20;  // sizes in all shapes together

/// A positive integer, written in digits only.
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
  const Program reader = libexec_rank("model_shapes", "reads torch's files");
  const LimitedOutput output = output_within(command_of(reader, {file.string()}), kReaderLimits);
  const std::string what = "'" + file.string() + "' can't be read as a torch model: ";
  if (!output.beyond_limit.empty())
    throw UsageError(what + "its reader " + output.beyond_limit +
                     ": the file is damaged, or made to keep its reader busy");
  if (output.exit_code > kFirstOfSignals)
    throw UsageError(what + "its reader " + describe(Signalled{output.exit_code - kFirstOfSignals, false}) +
                     ": the file is damaged, or made to crash its reader");
  if (output.exit_code != 0) throw UsageError(what + output.text + "\n  " + kAdvice);
  // libtorch may have printed warnings first: the list is the last line.
  const std::string list = last_line(output.text);
  try {
    return read_json<nlohmann::json>(list, {.depth = 2, .values = kMostSizes}).get<std::vector<Shape>>();
  } catch (const std::exception& error) {
    throw UsageError(what + "its reader has printed no list of shapes: " + error.what());
  }
}

/// Has a tensor of this shape no element?
bool is_empty(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

}  // namespace

Shape shape_of(const std::string& text) {
  Shape shape;
  std::int64_t elements = 1;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const auto size = whole_number(std::string_view(text).substr(begin, end - begin));
    if (!size)
      throw UsageError("--shape '" + text +
                       "' is not a shape: write its sizes as 1024x512, or 10 for a vector");
    if (*size > kMostElements / elements)
      throw UsageError("--shape '" + text + "' has more elements than any machine holds (2^50 are the most)");
    elements *= *size;
    shape.push_back(*size);
    begin = end + 1;
  }
  return shape;
}

std::vector<Shape> shapes_in(const fs::path& named) {
  expect_access(named);
  std::error_code unknown;  // ignored, such as a loop of symbolic links: opening the file below reports it
  const fs::path file = fs::is_directory(named, unknown) ? locate(named) / "model.safetensors" : named;
  if (!fs::exists(file, unknown) && !unknown) {
    const auto found =
        fs::is_directory(named, unknown) ? list_checkpoints(named) : std::vector<FoundCheckpoint>();
    if (!found.empty())
      throw UsageError("'" + named.string() + "' holds checkpoints: name one of them, such as '" +
                       found.front().path.string() + "'");
    const bool is_number = !named.empty() && std::isdigit(static_cast<unsigned char>(named.native().front()));
    throw UsageError("'" + named.string() + "' is neither a model file nor a checkpoint: '" + file.string() +
                     "' is not there" +
                     (is_number ? "; for a number of parameters write --parameters " + named.string() : ""));
  }
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
  if (std::all_of(shapes.begin(), shapes.end(), is_empty))
    throw UsageError("'" + file.string() +
                     "' holds no parameters: each of its tensors has a dimension of size 0");
  return shapes;
}

}  // namespace hookline
