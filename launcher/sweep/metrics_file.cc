#include "launcher/sweep/metrics_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/bounded_json.h"
#include "base/folder_access.h"
#include "base/regular_file.h"
#include "base/text/bytes_text.h"
#include "config/run_files.h"
#include "launcher/rank/run_folder.h"

namespace hookline {
namespace {

constexpr std::uintmax_t kMostBytesAtOnce = 16 << 20;

/// The length of the number at the start of `text` if it overflows to infinity, else 0.
std::size_t length_of_overflow(std::string_view text) {
  const std::size_t length = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
  if (length == 0) return 0;
  return std::isinf(std::strtod(std::string(text.substr(0, length)).c_str(), nullptr)) ? length : 0;
}

/// Replaces NaN and infinities by null: JSON has none, so Python, printf and others each write them in their
/// own way, as bare words or as 1e999.
std::string without_infinities(const std::string& line) {
  static constexpr std::array<std::string_view, 3> kWords = {"infinity", "nan", "inf"};
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto begins = [&](std::size_t at, std::string_view word) {
    for (std::size_t i = 0; i < word.size(); ++i)
      if (at + i >= line.size() || std::tolower(static_cast<unsigned char>(line[at + i])) != word[i])
        return false;
    return at + word.size() == line.size() || !is_letter(line[at + word.size()]);
  };
  const auto begins_number = [&](std::size_t at) {
    const auto is_of_number = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '+' || c == '-';
    };
    return is_of_number(line[at]) && (at == 0 || !is_of_number(line[at - 1]));
  };
  std::string text;
  bool in_text = false, is_escaped = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && !is_escaped) in_text = !in_text;
    is_escaped = in_text && line[i] == '\\' && !is_escaped;
    const std::size_t word_at = i + (line[i] == '-' || line[i] == '+');
    const auto word = std::find_if(kWords.begin(), kWords.end(),
                                   [&](std::string_view each) { return begins(word_at, each); });
    const std::size_t length = word != kWords.end() ? word_at + word->size() - i
                               : begins_number(i)   ? length_of_overflow(std::string_view(line).substr(i))
                                                    : 0;
    if (in_text || length == 0) {
      text += line[i];
    } else {
      text += "null";
      i += length - 1;
    }
  }
  return text;
}

}  // namespace

std::optional<nlohmann::json> read_metrics_line(const std::string& line) {
  using Json = nlohmann::json;
  Json json = json_or_discarded<Json>(line);
  if (json.is_discarded()) json = json_or_discarded<Json>(without_infinities(line));
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string loss_text(const BoundedLines& lines, const std::filesystem::path& file, bool goes_on) {
  if (goes_on)
    return "'" + file.string() + "' is larger than " + binary_bytes_text(kMostMetricsBytes) +
           ": what it logs beyond that is lost";
  const std::string skipped = lines.skipped_text(file);
  const bool is_one = lines.skipped().count == 1;
  return skipped.empty() ? "" : skipped + (is_one ? ": what it logs is lost" : ": what they log is lost");
}

std::string unread_text(const InputFile& file, const std::filesystem::path& name) {
  if (file.problem() == FileProblem::none || file.problem() == FileProblem::missing) return "";
  const auto access = find_access_problem(name);
  return access ? access->what : "'" + name.string() + "' can't be read: " + file.why();
}

std::int64_t step_of(const nlohmann::json& line, std::int64_t lines) {
  const auto step = line.find(kStepOfLine);
  const bool has_step = step != line.end() && step->is_number() && std::abs(step->get<double>()) < 9e18;
  return has_step ? static_cast<std::int64_t>(step->get<double>()) : lines;
}

void RepeatedSteps::look() {
  while (true) {
    const auto attempt = attempt_name(static_cast<std::int64_t>(starts_.size()) + 1);
    InputFile in(run_ / attempt / kMetricsStartFile);
    std::uintmax_t start = 0;
    if (!(in >> start)) return;
    starts_.push_back(start);
  }
}

std::optional<std::int64_t> RepeatedSteps::take(const nlohmann::json& line, std::int64_t step,
                                                std::uintmax_t offset) {
  bool is_repeat = false;
  for (; next_ < starts_.size() && offset >= starts_[next_]; ++next_) is_repeat = true;
  const auto has_number = [&](const char* name) { return line.contains(name) && line[name].is_number(); };
  if (has_number(kSecondsOfLine) && has_number(kBytesOfLine)) {
    is_repeat = is_repeat || (last_ && step < *last_);
    last_ = step;
  }
  return is_repeat ? std::optional(step) : std::nullopt;
}

MetricsFile::MetricsFile(std::filesystem::path file, std::string metric)
    : file_(std::move(file)), metric_(std::move(metric)), repeated_(file_) {}

void MetricsFile::read_on() { read_at_most(kMostBytesAtOnce); }

void MetricsFile::read_at_most(std::uintmax_t bytes) {
  InputFile in(file_);
  unread_ = unread_text(in, file_);
  if (!in || !in.seekg(static_cast<std::streamoff>(read_))) return;
  goes_on_ = in.bytes() > kMostMetricsBytes;
  std::uintmax_t left = std::min(bytes, kMostMetricsBytes - read_);
  std::array<char, 1 << 16> block;
  while (left > 0) {
    in.read(block.data(), static_cast<std::streamsize>(std::min<std::uintmax_t>(left, block.size())));
    const auto count = static_cast<std::size_t>(in.gcount());
    if (count == 0) return;
    repeated_.look();
    read_ += count;
    left -= count;
    lines_of_file_.feed({block.data(), count},
                        [this](const std::string& line, std::uint64_t offset) { take(line, offset); });
  }
}

void MetricsFile::finish() {
  read_at_most(kMostMetricsBytes);
  if (!goes_on_)
    lines_of_file_.finish([this](const std::string& line, std::uint64_t offset) { take(line, offset); });
}

std::string MetricsFile::loss() const {
  return unread_.empty() ? loss_text(lines_of_file_, file_, goes_on_) : unread_;
}

void MetricsFile::take(const std::string& line, std::uintmax_t offset) {
  const std::optional<nlohmann::json> json = read_metrics_line(line);
  if (!json) return;
  step_ = step_of(*json, lines_++);
  if (const auto first = repeated_.take(*json, *step_, offset))
    std::erase_if(points_, [&](const MetricPoint& point) { return point.step >= *first; });
  for (const auto& [name, value] : json->items()) {
    if (name == kStepOfLine) continue;
    const bool is_nan = value.is_null();
    if (!value.is_number() && !is_nan) continue;
    names_.insert(name);
    if (name == metric_)
      points_.push_back({*step_, is_nan ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  }
}

}  // namespace hookline
