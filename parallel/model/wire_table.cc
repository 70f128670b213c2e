#include "parallel/model/wire_table.h"

#include <algorithm>
#include <cstdio>

#include "base/text/bytes_text.h"
#include "base/text/count_text.h"

namespace hookline {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  const int length = std::snprintf(nullptr, 0, pattern, args...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, args...);
  text.pop_back();
  return text;
}

}  // namespace

std::string pipeline_line(const CommunicationStats& report) {
  std::string line = report.pipeline + " · " + rounded_count_text(report.parameters, "parameter") + " · " +
                     bytes_text(report.gradient_bytes) + " -> " + bytes_text(report.bytes_per_step) +
                     " a step";
  if (report.first_full_step > 0) line += " after step " + std::to_string(report.first_full_step);
  return line;
}

std::string wire_table(const std::vector<CommunicationStats>& reports) {
  if (reports.empty()) return "";
  std::size_t longest = 44;
  for (const CommunicationStats& report : reports) longest = std::max(longest, report.pipeline.size());
  const int width = static_cast<int>(longest);
  std::string table =
      format("%-*s %8s %14s %14s %8s\n", width, "hook", "steps", "uncompressed", "sent by a rank", "ratio");
  for (const CommunicationStats& report : reports) {
    const std::int64_t plain = report.gradient_bytes * report.steps;
    const std::string ratio =
        report.bytes_sent > 0
            ? format("%.1f", static_cast<double>(plain) / static_cast<double>(report.bytes_sent))
            : "-";
    table += format("%-*s %8lld %14s %14s %8s\n", width, report.pipeline.c_str(),
                    static_cast<long long>(report.steps), bytes_text(plain).c_str(),
                    bytes_text(report.bytes_sent).c_str(), ratio.c_str());
  }
  table.pop_back();
  return table;
}

}  // namespace hookline
