#include "launcher/containment/pid_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>

#include "base/file_descriptor.h"

namespace hookline {
namespace {

enum class SetUpStep { create, map_ids, detach_mounts, mount_proc, done };

struct SetUpProgress {
  SetUpStep failed = SetUpStep::done;
  int error_number = 0;
};

std::string setting(const std::string& name) {
  std::string path = name;
  for (char& letter : path)
    if (letter == '.') letter = '/';
  std::string value;
  std::ifstream("/proc/sys/" + path) >> value;
  return value;
}

constexpr const char* kWithoutPrivileges =
    "run hookline as root, or in a container with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN)";

NamespaceRefusal of_limits() {
  for (const std::string name :
       {"user.max_user_namespaces", "user.max_pid_namespaces", "user.max_mnt_namespaces"}) {
    if (setting(name) == "0")
      return {"the system allows none (" + name + " = 0)",
              "allow some, as root: sysctl -w " + name + "=10000"};
  }
  return {"the system's limit of namespaces is reached, or they are nested too deeply",
          "raise user.max_user_namespaces, user.max_pid_namespaces and user.max_mnt_namespaces, as root"};
}

NamespaceRefusal explain(const SetUpProgress& progress, bool has_user_namespace) {
  const std::string system_says = std::string(" (") + std::strerror(progress.error_number) + ")";
  if (progress.failed == SetUpStep::create &&
      (progress.error_number == ENOSPC || progress.error_number == EUSERS))
    return of_limits();
  if (progress.failed == SetUpStep::create && setting("kernel.unprivileged_userns_clone") == "0")
    return {"only root may make one (kernel.unprivileged_userns_clone = 0)",
            "let every user make one, as root: sysctl -w kernel.unprivileged_userns_clone=1"};
  if (progress.failed == SetUpStep::create)
    return {"the kernel, or the container that hookline runs in, refuses it" + system_says,
            kWithoutPrivileges};
  if (has_user_namespace && setting("kernel.apparmor_restrict_unprivileged_userns") == "1")
    return {"AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)",
            "give hookline an AppArmor profile with the rule \"userns,\", or lift the restriction, as root: "
            "sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0"};
  if (progress.failed == SetUpStep::map_ids)
    return {"the kernel maps no user and group into it" + system_says, kWithoutPrivileges};
  if (progress.failed == SetUpStep::detach_mounts)
    return {"its mounts can't be kept apart from the system's" + system_says + ", as happens inside a chroot",
            "run hookline where / is a mount point"};
  return {
      "the kernel mounts no /proc for it" + system_says +
          ": parts of the present one are hidden, as they are in containers",
      "start the container with an open /proc (docker run --security-opt systempaths=unconfined, podman run "
      "--security-opt unmask=ALL)"};
}

bool write_text(const char* file, const std::string& text) {
  const FileDescriptor descriptor(open(file, O_WRONLY | O_CLOEXEC));
  return descriptor.is_open() &&
         write(descriptor.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool map_ids(uid_t user, gid_t group) {
  const auto same = [](auto id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", same(user)) &&
         write_text("/proc/self/gid_map", same(group));
}

/// Sets up the namespaces, in the child.
SetUpProgress set_up(bool has_user_namespace, uid_t user, gid_t group) {
  if (has_user_namespace && !map_ids(user, group)) return {SetUpStep::map_ids, errno};
  // Mounts may be shared, as systemd makes them: what is mounted here would then appear everywhere.
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return {SetUpStep::detach_mounts, errno};
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return {SetUpStep::mount_proc, errno};
  return {};
}

/// Like fork(), with flags. The process has a single thread, so no other thread can hold a lock in the child.
pid_t fork_with(int flags) {
  return static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

}  // namespace

pid_t fork_into_pid_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  FileDescriptor read_end(ends[0]), write_end(ends[1]);
  std::fflush(nullptr);
  pid_t child = fork_with(CLONE_NEWPID | CLONE_NEWNS);
  const bool has_user_namespace = child < 0 && errno == EPERM;
  if (has_user_namespace) child = fork_with(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUSER);
  if (child < 0) throw NamespaceRefused(explain({SetUpStep::create, errno}, has_user_namespace));
  if (child == 0) {
    read_end.reset();
    const SetUpProgress progress = set_up(has_user_namespace, user, group);
    const ssize_t written = write(write_end.get(), &progress, sizeof progress);
    if (progress.failed != SetUpStep::done || written != sizeof progress) _exit(1);
    return 0;
  }
  write_end.reset();
  SetUpProgress progress;
  ssize_t count;
  do {
    count = read(read_end.get(), &progress, sizeof progress);
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(sizeof progress) && progress.failed == SetUpStep::done) return child;
  waitpid(child, nullptr, 0);
  if (count != static_cast<ssize_t>(sizeof progress))
    throw std::system_error(ECHILD, std::generic_category(),
                            "the first process of a PID namespace has ended");
  throw NamespaceRefused(explain(progress, has_user_namespace));
}

std::optional<NamespaceRefusal> pid_namespace_refusal() {
  try {
    const pid_t child = fork_into_pid_namespace();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    return std::nullopt;
  } catch (const NamespaceRefused& refused) {
    return refused.refusal();
  }
}

}  // namespace hookline
