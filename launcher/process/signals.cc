#include "launcher/process/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace hookline {
namespace {

bool is_ignored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

bool asks_to_end(int signal) {
  return signal != SIGCHLD && signal != SIGTSTP && signal != SIGUSR1 && signal != SIGUSR2;
}

Signals::Signals() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2})
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

void Signals::take_from(FileDescriptor requests) {
  fcntl(requests.get(), F_SETFL, O_NONBLOCK);
  requests_ = std::move(requests);
  is_agent_ = true;
  sigset_t output;
  sigemptyset(&output);
  sigaddset(&output, SIGTTOU);
  sigprocmask(SIG_BLOCK, &output, nullptr);
}

std::optional<ReceivedSignal> Signals::next() {
  signalfd_siginfo info;
  while (read(descriptor_.get(), &info, sizeof info) == sizeof info) {
    // The agent ignores signals sent to it directly: its signals come from the launcher.
    if (is_agent_ && info.ssi_signo != SIGCHLD) continue;
    return ReceivedSignal{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid)};
  }
  if (!requests_.is_open()) return std::nullopt;
  unsigned char signal = 0;
  const ssize_t count = read(requests_.get(), &signal, 1);
  if (count == 1) return ReceivedSignal{signal, 0};
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  requests_.reset();
  return ReceivedSignal{SIGKILL, 0};
}

void Signals::send_to_launcher(unsigned char byte) const {
  // If the launcher is gone, next() reports it.
  if (requests_.is_open()) [[maybe_unused]]
    const ssize_t sent = send(requests_.get(), &byte, 1, MSG_NOSIGNAL);
}

bool Signals::is_launcher_gone() const {
  if (!requests_.is_open()) return is_agent_;
  pollfd descriptor = {requests_.get(), 0, 0};
  return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & POLLHUP) != 0;
}

void Signals::suspend() {
  if (!requests_.is_open()) {
    kill(getpid(), SIGSTOP);
    return;
  }
  send_to_launcher(SIGTSTP);
  while (true) {
    pollfd descriptor = {requests_.get(), POLLIN, 0};
    poll(&descriptor, 1, -1);
    unsigned char signal = 0;
    // If the launcher is killed while it is stopped, next() reports it.
    const ssize_t count = recv(requests_.get(), &signal, 1, 0);
    if (count == 0 || (count == 1 && signal == SIGCONT)) return;
  }
}

std::optional<int> Signals::asked_to_end(bool warning_too) {
  while (const auto signal = next()) {
    if (signal->number == SIGTSTP) {
      const auto begin = std::chrono::steady_clock::now();
      if (around_suspension_.before) around_suspension_.before();
      suspend();
      if (around_suspension_.after) around_suspension_.after(std::chrono::steady_clock::now() - begin);
    } else if (signal->number == SIGUSR1 ? warning_too : asks_to_end(signal->number)) {
      return signal->number;
    }
  }
  return std::nullopt;
}

std::optional<int> Signals::wait(std::chrono::milliseconds time, const std::vector<int>& descriptors) {
  std::vector<pollfd> waited_for;
  for (const int descriptor : this->descriptors()) waited_for.push_back({descriptor, POLLIN, 0});
  for (const int descriptor : descriptors) waited_for.push_back({descriptor, POLLIN, 0});
  poll(waited_for.data(), waited_for.size(), static_cast<int>(time.count()));
  return asked_to_end(/*warning_too=*/false);
}

void Signals::restore() const {
  sigaction(SIGPIPE, &former_pipe_, nullptr);
  sigaction(SIGXFSZ, &former_file_limit_, nullptr);
  sigaction(SIGCHLD, &former_child_, nullptr);
  sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
}

}  // namespace hookline
