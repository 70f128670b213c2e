#include "support/terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace hookline::testing {

Terminal::Terminal(const std::string& program, const ProcessOptions& options) {
  const winsize size{40, 100, 0, 0};
  pid_ = forkpty(&descriptor_, nullptr, nullptr, &size);
  if (pid_ != 0) return;
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(1);
  for (const auto& [name, value] : options.environment) {
    if (value)
      setenv(name.c_str(), value->c_str(), 1);
    else
      unsetenv(name.c_str());
  }
  std::vector<const char*> arguments = {program.c_str()};
  for (const std::string& argument : options.arguments) arguments.push_back(argument.c_str());
  arguments.push_back(nullptr);
  execv(program.c_str(), const_cast<char* const*>(arguments.data()));
  _exit(127);
}

Terminal::~Terminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(descriptor_);
}

void Terminal::type(const std::string& keys) const {
  ASSERT_EQ(write(descriptor_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

bool Terminal::shows(const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  std::size_t at;
  while ((at = screen_.find(text, seen_)) == std::string::npos) {
    if (std::chrono::steady_clock::now() > end) return false;
    pollfd readable = {descriptor_, POLLIN, 0};
    if (poll(&readable, 1, 100) <= 0) continue;
    char block[4096];
    const ssize_t count = read(descriptor_, block, sizeof block);
    if (count <= 0) return false;
    screen_.append(block, static_cast<std::size_t>(count));
  }
  seen_ = at + text.size();
  return true;
}

int Terminal::exit_code() {
  char block[4096];
  for (ssize_t count; (count = read(descriptor_, block, sizeof block)) > 0;)
    screen_.append(block, static_cast<std::size_t>(count));
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace hookline::testing
