// One output stream of one rank: from its pipe into its log file and, line by line, to the launcher's own
// output.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/output_queue.h"
#include "launcher/output/tail.h"

namespace hookline {

/// Opens a log for writing. Throws Error naming it.
FileDescriptor open_log(const std::filesystem::path& file);

/// `out` must outlive it.
class RankStream {
 public:
  /// Called once, when the log can't be written any more. The run continues without it.
  using OnLogFailure = std::function<void(const std::filesystem::path& log, int error_number)>;

  /// `prefix` comes before each line that is shown; without one, no line is shown.
  RankStream(std::filesystem::path log, const std::optional<std::string>& prefix, OutputQueue& out,
             OnLogFailure on_log_failure);

  /// Makes the pipe and returns the end that the rank is to write to. Throws std::system_error.
  FileDescriptor open_pipe();

  /// Reads what the pipe holds, at most `most_bytes`, without waiting. False if there was nothing.
  bool take(std::size_t most_bytes);

  /// Passes on the unfinished line, if there is one, and closes the pipe and the log.
  void finish();

  int descriptor() const { return pipe_.get(); }
  bool is_open() const { return pipe_.is_open(); }
  /// Does the launcher's output have more to write than its reader takes?
  bool is_held_up() const { return prefix_ && out_->is_congested(); }
  /// Its last lines, including an unfinished one.
  Tail tail() const;

 private:
  void write_log(std::string_view bytes);
  void show(std::string_view line);

  std::filesystem::path log_file_;
  FileDescriptor log_;
  FileDescriptor pipe_;
  std::optional<std::string> prefix_;  // none: no line is shown
  LineSplitter lines_;
  std::chrono::steady_clock::time_point shown_overwritten_ = std::chrono::steady_clock::now();
  Tail tail_;
  OutputQueue* out_;
  OnLogFailure on_log_failure_;
};

}  // namespace hookline
