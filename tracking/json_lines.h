// Metrics as lines of JSON: what every run leaves.
#pragma once

#include <filesystem>

#include "tracking/append_file.h"
#include "tracking/tracker.h"
#include "tracking/trackers.h"

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

/// What the last whole line of such a file says; nothing so far if there is no file, or no such line in its last megabyte. Lines
/// without "seconds" and "bytes_sent", which a program may have written by itself, are passed over.
LoggedSoFar logged_so_far(const std::filesystem::path& file);

}  // namespace hookline
