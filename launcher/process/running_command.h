// A program that runs beside the launcher's own work, and what it prints.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "launcher/process/child.h"
#include "launcher/process/signals.h"

namespace hookline {

/// A command that runs; it and its children are killed when this goes.
class RunningCommand {
 public:
  /// Starts `child`, whose outputs and `before_exec` are set here. Throws SpawnError, or std::system_error if
  /// there can't be a pipe.
  RunningCommand(ChildSpec child, const Signals& signals);
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  /// Readable when there is something to look at.
  std::vector<int> descriptors() const {
    return output_.is_open() ? std::vector{output_.get()} : std::vector{end_.get()};
  }

  /// Appends new output (standard output and error) to `text`. Returns the wait status once the command has
  /// closed both and ended; before that, nothing.
  std::optional<int> look(std::string& text);

 private:
  FileDescriptor output_, end_;
  pid_t pid_ = 0;
  std::optional<int> status_;
};

}  // namespace hookline
