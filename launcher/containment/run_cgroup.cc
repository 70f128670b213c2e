#include "launcher/containment/run_cgroup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/log.h"

namespace hookline {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "hookline-run-";

/// The path after "0::" in /proc/self/cgroup; empty if there is none.
std::string own_name() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::")) return line.substr(3);
  return "";
}

/// The folder of the group `name`. A line of mountinfo: "ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE
/// OPTIONS".
fs::path folder_of(const std::string& name) {
  std::ifstream in("/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.find(" - cgroup2 ") == line.npos) continue;
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    fields >> id >> parent >> device >> root >> point;
    if (root == "/") return point + name;
    if (name == root || name.starts_with(root + "/")) return point + name.substr(root.size());
  }
  return {};
}

FileDescriptor open_in(const fs::path& folder, const char* name, int flags) {
  return FileDescriptor(open((folder / name).c_str(), flags | O_CLOEXEC));
}

/// Removes the group and those that ranks made in it, except groups that hold a process.
void remove_empty(const fs::path& group) {
  std::error_code none;  // ignored: a group that stays holds a process, or is another user's
  for (fs::directory_iterator each(group, none), end; !none && each != end; each.increment(none))
    if (std::error_code unknown; each->symlink_status(unknown).type() == fs::file_type::directory)
      remove_empty(each->path());
  rmdir(group.c_str());
}

bool is_populated(const FileDescriptor& events) {
  char text[256];
  const ssize_t count = events.is_open() ? pread(events.get(), text, sizeof text, 0) : 0;
  return count > 0 && std::string_view(text, static_cast<std::size_t>(count)).find("populated 1") !=
                          std::string_view::npos;
}

FileDescriptor lock_of(const fs::path& group, int how) {
  FileDescriptor lock(open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return lock.is_open() && flock(lock.get(), how) == 0 ? std::move(lock) : FileDescriptor();
}

/// Kills the ranks of a launch whose own processes were all killed at one instant: then nobody holds the
/// lock. Skips an empty group, since a launch may have just made it and not locked it yet.
void end_left_behind(const fs::path& group) {
  const FileDescriptor lock = lock_of(group, LOCK_EX | LOCK_NB);
  const FileDescriptor events = open_in(group, "cgroup.events", O_RDONLY),
                       kill = open_in(group, "cgroup.kill", O_WRONLY);
  if (!lock.is_open() || !kill.is_open() || !is_populated(events)) return;
  if (write(kill.get(), "1", 1) != 1) return;
  log::warning(
      "killed the processes left behind by a launch whose own processes were all killed: control group " +
      group.string());
  constexpr int kMostLooks = 500;
  for (int i = 0; i < kMostLooks && is_populated(events); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  remove_empty(group);
}

}  // namespace

std::string place_of_run_cgroup(std::string& why_not) {
  const std::string name = own_name();
  const fs::path folder = name.empty() ? fs::path() : folder_of(name);
  if (folder.empty()) {
    why_not = "this process is in no control group of version 2 that is mounted";
    return "";
  }
  // A process can be moved into a group of its own only by a user who may write both here and there.
  if (access(folder.c_str(), W_OK) != 0 || access((folder / "cgroup.procs").c_str(), W_OK) != 0) {
    why_not = folder.string() + ": " + std::strerror(errno);
    return "";
  }
  return folder;
}

RunCgroup RunCgroup::make(std::string& why_not) {
  const std::string own = place_of_run_cgroup(why_not);
  if (own.empty()) return {};
  RunCgroup group;
  group.path_ = fs::path(own) / (kPrefix + std::to_string(getpid()));
  std::error_code none;
  for (fs::directory_iterator each(own, none), end; !none && each != end; each.increment(none))
    if (each->path().filename().string().starts_with(kPrefix)) end_left_behind(each->path());
  remove_empty(group.path_);  // left by a launch that was killed: process ids repeat
  if (mkdir(group.path_.c_str(), 0755) != 0) {
    why_not = group.path_.string() + ": " + std::strerror(errno);
    return {};
  }
  group.folder_ = FileDescriptor(open(group.path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  group.events_ = open_in(group.path_, "cgroup.events", O_RDONLY);
  group.kill_ = open_in(group.path_, "cgroup.kill", O_WRONLY);
  group.lock_ = lock_of(group.path_, LOCK_SH);
  if (group.folder_.is_open() && group.events_.is_open() && group.kill_.is_open()) return group;
  why_not = group.path_.string() + " has no cgroup.kill, which Linux has had since 5.14";
  rmdir(group.path_.c_str());
  return {};
}

void RunCgroup::kill_all() const {
  // write() fails only if the group is gone, and then no process is in it.
  if (exists()) [[maybe_unused]]
    const ssize_t written = write(kill_.get(), "1", 1);
}

bool RunCgroup::holds_any() const { return is_populated(events_); }

bool RunCgroup::remove() {
  if (exists()) remove_empty(path_);
  return !holds_any();  // rmdir can't tell: it also refuses a group that holds empty groups
}

}  // namespace hookline
