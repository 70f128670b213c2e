// What the library logs while a test runs.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"

namespace hookline::testing {

/// Collects the log messages while it is alive.
class Messages {
 public:
  Messages() : redirect_([this](std::string_view text) { add(text); }) {}
  std::string text() const { return text_; }

 private:
  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    text_ += text;
  }
  std::mutex mutex_;
  std::string text_;
  log::Redirect redirect_;
};

}  // namespace hookline::testing
