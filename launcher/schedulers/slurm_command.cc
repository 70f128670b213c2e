#include "launcher/schedulers/slurm_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <system_error>

#include "launcher/supervise/child.h"
#include "launcher/supervise/duration_text.h"
#include "launcher/supervise/environment.h"
#include "launcher/supervise/file_descriptor.h"
#include "launcher/supervise/outcome.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

/// A command that runs; it and its children are killed when this goes.
class RunningCommand {
 public:
  RunningCommand(const std::vector<std::string>& command, const Signals& signals) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
    output_ = FileDescriptor(ends[0]);
    const FileDescriptor write_end(ends[1]);
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    ChildSpec child;
    child.program = "/bin/sh";  // which looks the command up, and says if it is not there
    child.arguments = {"sh", "-c", "exec " + shell_line(command)};
    child.environment = own_environment();
    child.standard_output = child.standard_error = write_end.get();
    child.before_exec = [&signals] { signals.restore(); };
    pid_ = spawn(child);
    end_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  }

  ~RunningCommand() {
    if (status_) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  /// Readable when there is something to look at.
  std::vector<int> descriptors() const {
    return output_.is_open() ? std::vector{output_.get()} : std::vector{end_.get()};
  }

  /// Takes what has come; its wait status once it has closed its output and ended.
  std::optional<int> look(std::string& text) {
    char block[4096];
    while (output_.is_open()) {
      const ssize_t count = read(output_.get(), block, sizeof block);
      if (count > 0) {
        text.append(block, static_cast<std::size_t>(count));
      } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        output_.reset();
      } else if (errno == EAGAIN) {
        return std::nullopt;
      }
    }
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_;
  }

 private:
  FileDescriptor output_, end_;
  pid_t pid_ = 0;
  std::optional<int> status_;
};

}  // namespace

CommandOutput answer_of(const std::vector<std::string>& command, Signals& signals,
                        std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  RunningCommand running(command, signals);
  CommandOutput output;
  std::optional<int> status;
  while (!(status = running.look(output.text))) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) {
      const auto name = std::find_if(command.begin(), command.end(), [](const std::string& word) {
        return word == "squeue" || word == "scontrol" || word == "sbatch";
      });
      throw SlurmError("'" + (name == command.end() ? command.front() : *name) +
                       "' has not answered within " + seconds_text(limit));
    }
    if (const auto signal = signals.wait(left, running.descriptors())) throw Interrupted{*signal};
  }
  while (!output.text.empty() && output.text.back() == '\n') output.text.pop_back();
  output.exit_code = exit_code(outcome_of(*status));
  return output;
}

void show_text(std::string_view text, Signals& signals) {
  constexpr std::size_t kAtOnce =
      512;  // POSIX's least PIPE_BUF: of a pipe that can be written to, room for all of it
  while (!text.empty()) {
    std::vector<pollfd> descriptors = {{STDOUT_FILENO, POLLOUT, 0}};
    for (const int descriptor : signals.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), -1);
    if (const auto signal = signals.asked_to_end(/*warning_too=*/false)) throw Interrupted{*signal};
    if (descriptors[0].revents == 0) continue;
    const ssize_t count = write(STDOUT_FILENO, text.data(), std::min(text.size(), kAtOnce));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) throw Interrupted{SIGPIPE};
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace hookline
