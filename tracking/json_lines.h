// Metrics as lines of JSON: what every run leaves.
#pragma once

#include <filesystem>

#include "tracking/append_file.h"
#include "tracking/tracker.h"

namespace hookline {

/// Appends to a file:
/// {"step": 10, "seconds": 1.25, "bytes_sent": 5120, "loss": 0.31}. What is not a finite number becomes null. The file is made
/// with the first line. One whose disk is full is tried again; the part of a line that it took is taken back.
class JsonLines : public Tracker {
 public:
  explicit JsonLines(std::filesystem::path file) : file_(std::move(file)) {}

  std::string place() const override;
  void write(std::span<const LoggedMetrics> lines) override;

 private:
  AppendFile file_;
  bool is_looked_at_ = false;  // as a former process has left it
  bool is_torn_ = false;       // it ends in a part of a line
};

}  // namespace hookline
