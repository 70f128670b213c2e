#include "tracking/json_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounded_json.h"
#include "base/regular_file.h"
#include "config/run_files.h"

namespace hookline {
namespace {

std::string text_of(const LoggedMetrics& metrics) {
  nlohmann::ordered_json line;
  line[kStepOfLine] = metrics.step;
  line[kSecondsOfLine] = metrics.seconds;
  line[kBytesOfLine] = metrics.bytes_sent;
  for (const auto& [name, value] : metrics.values) line[name] = value;  // null, if it is not finite
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// True if the file ends in the middle of a line: a process was killed there, or the disk was full.
bool ends_in_part_of_a_line(const std::filesystem::path& file) {
  InputFile in(file);
  return in && in.bytes() > 0 && in.seekg(-1, std::ios::end).get() != '\n';
}

constexpr std::uint64_t kMostOfAnEnd = 1 << 20;  // longer than any line

std::string end_of(const std::filesystem::path& file) {
  InputFile in(file);
  std::string text(std::min(in.bytes(), kMostOfAnEnd), '\0');
  in.seekg(-static_cast<std::streamoff>(text.size()), std::ios::end);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// The totals in a line; nothing if the line is torn, or lacks them.
std::optional<LoggedSoFar> so_far_in(std::string_view line) {
  const auto json = json_or_discarded<nlohmann::json>(line);
  if (!json.is_object()) return std::nullopt;
  const auto seconds = json.find(kSecondsOfLine), bytes = json.find(kBytesOfLine);
  if (seconds == json.end() || !seconds->is_number() || bytes == json.end() || !bytes->is_number_integer())
    return std::nullopt;
  return LoggedSoFar{seconds->get<double>(), bytes->get<std::int64_t>()};
}

}  // namespace

LoggedSoFar logged_so_far(const std::filesystem::path& file) {
  const std::string text = end_of(file);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t line = rest.rfind('\n') + 1;  // 0 if there is no other before it
    if (const auto found = so_far_in(rest.substr(line))) return *found;
    rest = rest.substr(0, line == 0 ? 0 : line - 1);
  }
  return {};
}

std::string JsonLines::place() const { return "'" + file_.path().string() + "'"; }

void JsonLines::write(std::span<const LoggedMetrics> lines) {
  if (!std::exchange(is_looked_at_, true)) is_torn_ = ends_in_part_of_a_line(file_.path());
  std::string text = is_torn_ ? "\n" : "";
  std::vector<std::size_t> ends;
  for (const LoggedMetrics& each : lines) {
    text += text_of(each);
    ends.push_back(text.size());
  }
  std::string problem;
  const std::size_t written = file_.append(text, problem);
  if (problem.empty()) {
    is_torn_ = false;
    return;
  }
  const auto taken = std::upper_bound(ends.begin(), ends.end(), written) - ends.begin();
  const std::size_t whole = taken == 0 ? 0 : ends[static_cast<std::size_t>(taken) - 1];
  if (whole > 0) is_torn_ = false;
  if (written > whole && !file_.take_back(written - whole)) is_torn_ = true;
  throw TryAgain(problem, static_cast<std::size_t>(taken));
}

}  // namespace hookline
