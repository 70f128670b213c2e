#include "tracking/json_lines.h"

#include <nlohmann/json.hpp>
#include <utility>

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

}  // namespace

std::string JsonLines::place() const { return "'" + file_.path().string() + "'"; }

void JsonLines::write(std::span<const LoggedMetrics> lines) {
  // Whoever follows the file has seen the part of a line: it is ended, and the line comes once more.
  std::string text = is_torn_ ? "\n" : "";
  std::vector<std::size_t> ends;
  for (const LoggedMetrics& each : lines) {
    text += text_of(each);
    ends.push_back(text.size());
  }
  std::string problem;
  const std::size_t written = file_.append(text, problem);
  if (written > 0) is_torn_ = text[written - 1] != '\n';
  if (problem.empty()) return;
  const auto taken = std::upper_bound(ends.begin(), ends.end(), written) - ends.begin();
  throw TryAgain(problem, static_cast<std::size_t>(taken));
}

}  // namespace hookline
