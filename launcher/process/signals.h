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
  pid_t child = 0;  // of SIGCHLD: whose end raised it. Of several ends before it is read, the first.
};

/// Of those that Signals reads: neither a child's end nor a word to the ranks.
bool asks_to_end(int signal);

/// While it lives, SIGCHLD, SIGTSTP, the signals that ask to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT) and those that tell
/// something (SIGUSR1, SIGUSR2) are read with next(), and a closed pipe or a file that reached its limit is an errno. A signal that was
/// ignored before (nohup) stays ignored. One at a time in a process.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// From now on all but SIGCHLD come from `requests`, a byte each, and not from the system: this process is a guard's
  /// agent. Once the other end is closed, next() says SIGKILL, a single time. Blocks SIGTTOU, by which a terminal set to
  /// `tostop` would stop a process that is not of its foreground group, as an agent never is.
  void take_from(FileDescriptor requests);

  /// To be polled for input; -1 among them means nothing.
  std::array<int, 2> descriptors() const { return {descriptor_.get(), requests_.get()}; }
  std::optional<ReceivedSignal> next();

  /// What asked_to_end() and wait() call before they suspend this process, and when it goes on.
  struct AroundSuspension {
    std::function<void()> before;
    std::function<void(std::chrono::steady_clock::duration)> after;  // that it was suspended
  };
  void around_suspension(AroundSuspension calls) { around_suspension_ = std::move(calls); }

  /// Of an agent: sends its guard a byte, if the guard is still there.
  void tell_guard(unsigned char byte) const;
  /// Of an agent: has its guard been killed?
  bool is_guard_gone() const;

  /// Stops this process until it is continued, as Ctrl-Z asks for. An agent waits while its guard is stopped: as the first
  /// process of a PID namespace it could not stop itself.
  void suspend();

  /// While there are no ranks to hand them to: the first of those that are there which asks to end, which SIGUSR1 does if
  /// `warning_too`. One that suspends is obeyed, and the others are passed over.
  std::optional<int> asked_to_end(bool warning_too);
  /// The same of signals that come within `time`, SIGUSR1 apart. Ends sooner if one of `descriptors` can be read, or if any
  /// signal comes.
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
