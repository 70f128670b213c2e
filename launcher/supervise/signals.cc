#include "launcher/supervise/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <system_error>

namespace hookline {
namespace {

bool is_ignored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP})
    if (!is_ignored(signal)) sigaddset(&mask, signal);

  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &former_pipe_);
  sigaction(SIGXFSZ, &ignore, &former_file_limit_);
  struct sigaction only_ends = {};
  only_ends.sa_handler = SIG_DFL;
  only_ends.sa_flags = SA_NOCLDSTOP;
  sigaction(SIGCHLD, &only_ends, &former_child_);

  sigprocmask(SIG_BLOCK, &mask, &former_mask_);
  descriptor_ = FileDescriptor(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.is_open()) {
    const int error = errno;
    restore();
    throw std::system_error(error, std::generic_category(), "signalfd");
  }
}

Signals::~Signals() { restore(); }

std::optional<ReceivedSignal> Signals::next() {
  signalfd_siginfo info;
  if (read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return ReceivedSignal{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid)};
}

void Signals::restore() const {
  sigaction(SIGPIPE, &former_pipe_, nullptr);
  sigaction(SIGXFSZ, &former_file_limit_, nullptr);
  sigaction(SIGCHLD, &former_child_, nullptr);
  sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
}

}  // namespace hookline
