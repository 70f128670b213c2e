#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "base/text/printable.h"

namespace hookline::log {
namespace {

class Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  Redirect::Writer writer;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (writer)
      writer({line.data(), line.size()});
    else
      std::fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { std::fflush(stderr); }
};

// Sink and logger are never destroyed: a thread that was left running may log while the process exits.
const std::shared_ptr<Sink>& sink() {
  static const auto& the_sink = *new std::shared_ptr<Sink>(std::make_shared<Sink>());
  return the_sink;
}

spdlog::logger& logger() {
  static spdlog::logger& the_logger = []() -> spdlog::logger& {
    auto& made = *new spdlog::logger("hookline", sink());
    made.set_formatter(std::make_unique<spdlog::pattern_formatter>("hookline: %v"));
    return made;
  }();
  return the_logger;
}

// Never destroyed either.
std::vector<std::string>& parts_with_line_breaks() {
  static auto& parts = *new std::vector<std::string>();
  return parts;
}

std::string shown(std::string_view message) {
  std::string text(message);
  for (const std::string& part : parts_with_line_breaks())
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at))
      text.replace(at, part.size(), printable(part));
  return printable_lines(text);
}

}  // namespace

void set_level(const std::string& level) { logger().set_level(spdlog::level::from_str(level)); }

void escape_line_breaks_of(const std::vector<std::string>& words) {
  std::vector<std::string>& parts = parts_with_line_breaks();
  parts.clear();
  // A message may show only a part: the folder of a path, or the value of --flag=VALUE.
  for (const std::string& word : words)
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t end = std::min(word.find_first_of("/=", begin), word.size());
      const std::string part = word.substr(begin, end - begin);
      const bool is_blank =
          part.find_first_not_of(" \t\n") == part.npos;  // also occurs in messages of several lines
      if (part.find('\n') != part.npos && !is_blank) parts.push_back(part);
      begin = end + 1;
    }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

// Messages are escaped, since much of them comes from outside: a rank's error file, a host's name, a path.
void debug(std::string_view message) { logger().debug("{}", shown(message)); }
void info(std::string_view message) { logger().info("{}", shown(message)); }
void warning(std::string_view message) { logger().warn("warning: {}", shown(message)); }
void error(std::string_view message) { logger().error("error: {}", shown(message)); }

Redirect::Redirect(Writer writer) { sink()->writer = std::move(writer); }
Redirect::~Redirect() { sink()->writer = nullptr; }

}  // namespace hookline::log
