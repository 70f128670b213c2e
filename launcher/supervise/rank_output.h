// What the ranks of this node print, on its way to their logs and to the launcher's own output.
#pragma once

#include <poll.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "base/file_descriptor.h"
#include "launcher/output/output_queue.h"
#include "launcher/output/rank_stream.h"
#include "launcher/output/tail.h"
#include "launcher/supervise/job.h"

namespace hookline {

/// Never waits: whoever owns it polls the descriptors that it adds, and then calls write() and read().
class RankOutput {
 public:
  /// Opens the ranks' logs. Throws Error naming one that can't be written.
  explicit RankOutput(const std::vector<RankSpec>& ranks);
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// Called before anything is written to the launcher's output or error.
  void set_before_write(const std::function<void()>& before_write);

  /// The ends of a rank's pipes that it is to write to.
  struct Pipes {
    FileDescriptor output, error;
  };
  /// Throws std::system_error.
  Pipes open_pipes(int rank);

  /// Adds the ranks' streams that can be read now. A stream whose output is read slowly is left out: its pipe
  /// fills up, and the rank blocks as it would without the launcher.
  void add_readable(std::vector<pollfd>& descriptors) const;
  /// The launcher's own output and error, if something is to be written there.
  void add_writable(std::vector<pollfd>& descriptors) const;

  /// Writes as much to the launcher's output as its readers accept without blocking.
  void write();
  /// Reads what the ranks have printed, a limited amount of each stream, so that no stream starves the
  /// others.
  void read();
  /// Reads what is left once the ranks are gone, and closes their pipes.
  void drain();

  bool is_written() const { return output_.is_empty() && error_.is_empty(); }
  /// Drops what is not written yet. The logs are complete.
  void discard();

  /// Warns, a single time, that nobody reads the launcher's standard output any more.
  void warn_if_closed();

  /// The launcher's standard error, for its own messages.
  OutputQueue& error() { return error_; }
  /// The last lines of a rank's standard error.
  Tail error_tail(int rank) const;

 private:
  struct Streams {
    RankStream output, error;
  };

  void warn_of_log(const std::filesystem::path& file, int error_number);

  OutputQueue output_{1}, error_{2};
  std::vector<Streams> ranks_;
  bool has_warned_of_log_ = false;
  bool has_warned_of_closed_ = false;
};

}  // namespace hookline
