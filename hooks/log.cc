#include "hooks/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "hooks/printable.h"

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

// Neither is ever destroyed: a thread that is left behind may speak while the process exits.
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

}  // namespace

void set_level(const std::string& level) { logger().set_level(spdlog::level::from_str(level)); }

// Much of what is logged has come from elsewhere: a rank's error file, the name of a host, a path.
void debug(std::string_view message) { logger().debug("{}", printable_lines(message)); }
void info(std::string_view message) { logger().info("{}", printable_lines(message)); }
void warning(std::string_view message) { logger().warn("warning: {}", printable_lines(message)); }
void error(std::string_view message) { logger().error("error: {}", printable_lines(message)); }

Redirect::Redirect(Writer writer) { sink()->writer = std::move(writer); }
Redirect::~Redirect() { sink()->writer = nullptr; }

}  // namespace hookline::log
