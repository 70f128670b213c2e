// The launcher's own signals, as a descriptor to poll instead of handlers.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace hookline {

struct ReceivedSignal {
  int number = 0;
  pid_t child = 0;  // for SIGCHLD: the child that ended; if several ended before it was read, the first
};

/// True for signals that ask the launcher to stop: all that Signals reads, except SIGCHLD, SIGTSTP, SIGUSR1
/// and SIGUSR2.
bool asks_to_end(int signal);

/// While it lives, next() reads SIGCHLD, SIGTSTP, the stop signals (SIGINT, SIGTERM, SIGHUP, SIGQUIT) and the
/// notifications SIGUSR1 and SIGUSR2. A closed pipe or a file size limit becomes an errno instead of a
/// signal. Signals that were ignored before, as under nohup, stay ignored. At most one may exist in a
/// process.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Makes this process a launcher's agent: from now on, all signals except SIGCHLD are read from `requests`,
  /// one byte each; those sent to this process are ignored. When the other end closes, next() returns SIGKILL
  /// once. Blocks SIGTTOU, with which a terminal set to `tostop` would stop an agent that writes to it from
  /// the background.
  void take_from(FileDescriptor requests);

  /// To be polled for input; -1 among them means nothing.
  std::array<int, 2> descriptors() const { return {descriptor_.get(), requests_.get()}; }
  std::optional<ReceivedSignal> next();

  /// Functions that asked_to_end() and wait() call before they suspend this process, and after it is resumed.
  struct AroundSuspension {
    std::function<void()> before;
    std::function<void(std::chrono::steady_clock::duration)> after;  // with the time it was suspended
  };
  void around_suspension(AroundSuspension calls) { around_suspension_ = std::move(calls); }

  /// Of an agent: sends its launcher a byte, if the launcher is still there.
  void send_to_launcher(unsigned char byte) const;
  /// Of an agent: has its launcher been killed?
  bool is_launcher_gone() const;

  /// Stops this process until it is continued, as Ctrl-Z asks for. An agent waits while its launcher is
  /// stopped: as the first process of a PID namespace it could not stop itself.
  void suspend();

  /// For times without running ranks: reads pending signals and returns the first one that asks the launcher
  /// to stop; with `warning_too`, SIGUSR1 counts as such. Obeys SIGTSTP; discards other signals.
  std::optional<int> asked_to_end(bool warning_too);
  /// The same after waiting up to `time`, without SIGUSR1. Returns early if a signal arrives or one of
  /// `descriptors` becomes readable.
  std::optional<int> wait(std::chrono::milliseconds time, const std::vector<int>& descriptors = {});

  /// Undoes it all; for a child between fork and exec too.
  void restore() const;

 private:
  FileDescriptor descriptor_;
  FileDescriptor requests_;
  bool is_agent_ = false;
  AroundSuspension around_suspension_;
  sigset_t former_mask_;
  struct sigaction former_pipe_, former_file_limit_, former_child_;
};

}  // namespace hookline
