#include "digits_dataset.h"

#include <ATen/ATen.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace digits {
namespace {

constexpr int kSide = 8;
constexpr int kPixels = kSide * kSide;
constexpr int kMaxPixel = 16;
constexpr int kTestEvery = 5;

using Row = std::array<int, kPixels + 1>;  // the pixels, then the digit

[[noreturn]] void fail(const std::string& place, const std::string& problem) {
  throw DataError(place + ": " + problem +
                  "; a line holds 64 pixels from 0 to 16 and a digit from 0 to 9, separated by commas");
}

Row parse_line(std::string_view line, const std::string& place) {
  Row row{};
  const char* next = line.data();
  const char* const end = line.data() + line.size();
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string field = std::to_string(i + 1);
    if (i > 0) {
      if (next == end) fail(place, "the line ends after field " + std::to_string(i) + " of 65");
      if (*next != ',') fail(place, "there is no comma before field " + field);
      ++next;
    }
    const auto [stop, problem] = std::from_chars(next, end, row[i]);
    if (problem != std::errc()) fail(place, "field " + field + " is not a number");
    const int most = i < kPixels ? kMaxPixel : 9;
    if (row[i] < 0 || row[i] > most)
      fail(place, "field " + field + " is " + std::string(next, stop) + ", not a number from 0 to " +
                      std::to_string(most));
    next = stop;
  }
  if (next != end) fail(place, "the line goes on after field 65");
  return row;
}

}  // namespace

DigitsDataset::DigitsDataset(const std::filesystem::path& file, Split split) {
  std::error_code ignored;  // a file that can't be looked at is not a regular file
  if (!std::filesystem::is_regular_file(file, ignored))
    throw DataError(file.string() + ": not a file that can be read; name one with --data");
  std::ifstream stream(file);
  if (!stream) throw DataError(file.string() + ": can't be read; check its permissions");

  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::string line;
  int lines = 0;
  for (; std::getline(stream, line); ++lines) {
    if (line.ends_with('\r')) line.pop_back();
    const Row row = parse_line(line, file.string() + ":" + std::to_string(lines + 1));
    const bool is_test = lines % kTestEvery == 0;
    if (is_test != (split == Split::test)) continue;
    for (int i = 0; i < kPixels; ++i) pixels.push_back(static_cast<float>(row[i]) / kMaxPixel);
    labels.push_back(row[kPixels]);
  }
  if (stream.bad()) throw DataError(file.string() + ": reading stopped after line " + std::to_string(lines));
  if (lines < 2)
    throw DataError(file.string() + ": holds " + std::to_string(lines) + (lines == 1 ? " image" : " images") +
                    "; training and testing need one each at least");

  const auto count = static_cast<std::int64_t>(labels.size());
  images_ = at::tensor(pixels).view({count, 1, kSide, kSide});
  labels_ = at::tensor(labels);
}

torch::data::Example<> DigitsDataset::get(std::size_t index) {
  const auto i = static_cast<std::int64_t>(index);
  return {images_[i], labels_[i]};
}

std::optional<std::size_t> DigitsDataset::size() const { return static_cast<std::size_t>(labels_.size(0)); }

}  // namespace digits
