#include "launcher/process/limited_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/file_descriptor.h"
#include "base/text/duration_text.h"
#include "launcher/process/child.h"
#include "launcher/process/own_environment.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

/// Waits until `descriptor` is readable; false at the deadline.
bool wait_for(int descriptor, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable{descriptor, POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
    if (Clock::now() >= deadline) return false;
  }
}

/// Reads until the other end closes; false at the deadline.
bool read_all(int descriptor, Clock::time_point deadline, std::string& text) {
  char block[4096];
  while (wait_for(descriptor, deadline)) {
    const ssize_t count = read(descriptor, block, sizeof block);
    if (count > 0)
      text.append(block, static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)
      return true;
  }
  return false;
}

}  // namespace

LimitedOutput output_within(const std::vector<std::string>& command, const CommandLimits& limits) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  ChildSpec child;
  child.program = command[0];
  child.arguments = command;
  child.environment = own_environment();
  child.standard_output = child.standard_error = write_end.get();
  child.before_exec = [&limits] {
    rlimit processor{};
    getrlimit(RLIMIT_CPU, &processor);
    processor.rlim_cur =
        std::min<rlim_t>(processor.rlim_max, static_cast<rlim_t>(limits.processor_time.count()));
    setrlimit(RLIMIT_CPU, &processor);
  };
  const Clock::time_point deadline = Clock::now() + limits.time;
  const pid_t pid = spawn(child);
  write_end.reset();
  const FileDescriptor end(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));

  LimitedOutput output;
  const bool has_ended = read_all(read_end.get(), deadline, output.text) && wait_for(end.get(), deadline);
  if (!has_ended) kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  while (!output.text.empty() && output.text.back() == '\n') output.text.pop_back();
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (!has_ended)
    output.beyond_limit = "took more than " + seconds_text(limits.time);
  else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    output.beyond_limit = "took more than " + seconds_text(limits.processor_time) + " of processor time";
  return output;
}

}  // namespace hookline
