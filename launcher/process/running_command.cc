#include "launcher/process/running_command.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace hookline {

RunningCommand::RunningCommand(ChildSpec child, const Signals& signals) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  output_ = FileDescriptor(ends[0]);
  const FileDescriptor write_end(ends[1]);
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  child.standard_output = child.standard_error = write_end.get();
  child.before_exec = [&signals] { signals.restore(); };
  pid_ = spawn(child);
  end_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

RunningCommand::~RunningCommand() {
  if (status_) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> RunningCommand::look(std::string& text) {
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

}  // namespace hookline
