#include "launcher/containment/process_tree.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/file_descriptor.h"

namespace hookline {
namespace {

struct Status {
  SeenProcess process;
  pid_t parent = 0;
  char state = '?';

  bool ended() const { return state == 'Z' || state == 'X'; }
};

/// Reads /proc/PID/stat: "PID (NAME) STATE PARENT GROUP ... START_TIME ...". START_TIME is the 22nd field;
/// NAME may hold any characters.
std::optional<Status> status_of(pid_t pid) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re"), std::fclose);
  if (!file) return std::nullopt;
  char text[1024];
  text[std::fread(text, 1, sizeof text - 1, file.get())] = '\0';
  const char* fields = std::strrchr(text, ')');
  Status status;
  status.process.pid = pid;
  if (!fields ||
      std::sscanf(fields + 1,
                  " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &status.state, &status.parent, &status.process.group, &status.process.start_time) != 4)
    return std::nullopt;
  return status;
}

std::vector<Status> all_processes() {
  std::vector<Status> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return result;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (const auto status = status_of(pid)) result.push_back(*status);
  }
  return result;
}

void reap_all() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

/// The children of this thread, which the kernel lists in one read. Reading all of /proc can miss a process
/// that forks and exits. Empty if the kernel has no such list.
std::vector<pid_t> own_children() {
  std::vector<pid_t> result;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/thread-self/children", "re"),
                                                             std::fclose);
  pid_t pid = 0;
  while (file && std::fscanf(file.get(), "%d", &pid) == 1) result.push_back(pid);
  return result;
}

}  // namespace

std::vector<SeenProcess> descendants() { return descendants_of(getpid()); }

std::vector<SeenProcess> descendants_of(pid_t process) {
  std::multimap<pid_t, Status> children;
  for (const Status& status : all_processes()) children.emplace(status.parent, status);
  std::vector<SeenProcess> result;
  std::vector<pid_t> parents = {process};
  while (!parents.empty()) {
    const auto [first, last] = children.equal_range(parents.back());
    parents.pop_back();
    for (auto child = first; child != last; ++child) {
      parents.push_back(child->second.process.pid);
      if (!child->second.ended()) result.push_back(child->second.process);
    }
  }
  return result;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

bool is_running(pid_t process) {
  const auto status = status_of(process);
  return status && !status->ended();
}

bool is_stopped(pid_t process) {
  const auto status = status_of(process);
  return status && (status->state == 'T' || status->state == 't');
}

void signal_process(const SeenProcess& process, int signal) {
  const FileDescriptor descriptor(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  const auto now = status_of(process.pid);
  if (!now || now->process.start_time != process.start_time) return;
  if (descriptor.is_open()) {
    syscall(SYS_pidfd_send_signal, descriptor.get(), signal, nullptr, 0);
  } else {
    kill(process.pid, signal);  // a kernel before 5.3
  }
}

bool kill_descendants(std::chrono::milliseconds patience, const RunBounds& bounds) {
  constexpr std::chrono::milliseconds kPause{2};
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + patience;
  Clock::time_point next_sweep{};
  std::vector<pid_t> before;
  reap_all();
  while (has_children() || bounds.hold_any()) {
    bounds.kill_all();
    // Orphans become children of this process, since it is a subreaper. A child's number is not reused until
    // the child is reaped, which only happens here.
    std::vector<pid_t> children = own_children();
    for (const pid_t child : children) kill(child, SIGKILL);
    const auto now = Clock::now();
    if (now >= next_sweep) {
      for (const SeenProcess& process : descendants()) signal_process(process, SIGKILL);
      next_sweep = Clock::now() + kPause;
    }
    if (now >= deadline) return false;
    // Sleep only if nothing changed: a chain of processes, each of which starts the next and exits, would
    // outrun a loop that sleeps.
    if (children == before) std::this_thread::sleep_for(kPause);
    before = std::move(children);
    reap_all();
  }
  return true;
}

}  // namespace hookline
