// Writes metrics as lines of JSON, in every run.
#pragma once

#include <filesystem>

#include "tracking/append_file.h"
#include "tracking/tracker.h"
#include "tracking/trackers.h"

namespace hookline {

/// Appends lines to a file:
/// {"step": 10, "seconds": 1.25, "bytes_sent": 5120, "loss": 0.31}. Numbers that are not finite become null.
/// The first line creates the file. If the disk is full, it removes the part of a line that it could write,
/// and the line is tried again.
class JsonLines : public Tracker {
 public:
  explicit JsonLines(std::filesystem::path file) : file_(std::move(file)) {}

  std::string place() const override;
  void write(std::span<const LoggedMetrics> lines) override;

 private:
  AppendFile file_;
  bool is_looked_at_ = false;  // the end that an earlier process left
  bool is_torn_ = false;       // the file ends in the middle of a line
};

/// The totals in the last complete line of such a file; zeros if there is no file, or no such line in its
/// last megabyte. Skips lines without "seconds" and "bytes_sent", which the program may have written itself.
LoggedSoFar logged_so_far(const std::filesystem::path& file);

}  // namespace hookline
