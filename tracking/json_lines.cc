#include "tracking/json_lines.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

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

/// What was killed, or had no room, in the middle of one.
bool ends_in_part_of_a_line(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  return in && in.tellg() > 0 && in.seekg(-1, std::ios::end).get() != '\n';
}

}  // namespace

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
