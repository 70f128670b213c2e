#include "launcher/process/child.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/file_descriptor.h"

namespace hookline {
namespace {

struct StartFailure {
  int error_number;
  bool in_exec;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Like fork(), with the child in a control group; -1 if the kernel has no such call, or refuses it. If a
/// process moves into a group by itself, it waits at least 10 ms until every CPU has seen it.
pid_t fork_into(int cgroup) {
  clone_args how{};
  how.flags = CLONE_INTO_CGROUP;
  how.exit_signal = SIGCHLD;
  how.cgroup = static_cast<std::uint64_t>(cgroup);
  return static_cast<pid_t>(syscall(SYS_clone3, &how, sizeof how));
}

void move_into(int cgroup) {
  const int members = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (members >= 0) [[maybe_unused]]
    const ssize_t written = write(members, "0", 1);
}

// Returns only on failure.
StartFailure become(const ChildSpec& spec, char* const* arguments, char* const* environment,
                    const cpu_set_t* cores, pid_t launcher) {
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return {errno, false};
  if (getppid() != launcher) _exit(127);  // the launcher ended before prctl: no signal will come
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0) return {errno, false};
  if (dup2(null, 0) < 0 || dup2(spec.standard_output, 1) < 0 || dup2(spec.standard_error, 2) < 0)
    return {errno, false};
  if (null > 2) close(null);
  for (const int descriptor : spec.inherited)
    if (fcntl(descriptor, F_SETFD, 0) != 0) return {errno, false};
  if (cores && sched_setaffinity(0, sizeof *cores, cores) != 0) return {errno, false};
  if (spec.before_exec) spec.before_exec();
  execve(spec.program.c_str(), arguments, environment);
  return {errno, true};
}

}  // namespace

SpawnError::SpawnError(const std::string& what, int error_number, bool in_exec)
    : std::runtime_error(what + ": " + std::strerror(error_number)),
      error_number_(error_number),
      in_exec_(in_exec) {}

pid_t spawn(const ChildSpec& spec) {
  const std::vector<char*> arguments = pointers(spec.arguments);
  const std::vector<char*> environment = pointers(spec.environment);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : spec.cores) CPU_SET(core, &cores);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw SpawnError("can't make a pipe", errno, false);
  FileDescriptor read_end(ends[0]), write_end(ends[1]);

  // After vfork the child runs in this process's memory until exec, so the kernel copies no pages. (A
  // sanitizer makes it a fork; the pipe still reports failures.)
  const pid_t launcher = getpid();
  const volatile pid_t in_group = spec.cgroup >= 0 ? fork_into(spec.cgroup) : -1;  // vfork returns twice
  const pid_t child = in_group >= 0 ? in_group : vfork();
  if (child < 0) throw SpawnError("can't start a process", errno, false);
  if (child == 0) {
    if (spec.cgroup >= 0 && in_group < 0) move_into(spec.cgroup);
    const StartFailure failure =
        become(spec, arguments.data(), environment.data(), spec.cores.empty() ? nullptr : &cores, launcher);
    [[maybe_unused]] const ssize_t written = write(ends[1], &failure, sizeof failure);
    _exit(127);
  }

  // The write end closes by itself when exec succeeds.
  write_end.reset();
  StartFailure failure;
  ssize_t count;
  do {
    count = read(read_end.get(), &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(sizeof failure)) {
    waitpid(child, nullptr, 0);
    throw SpawnError("can't run '" + spec.program + "'", failure.error_number, failure.in_exec);
  }
  return child;
}

}  // namespace hookline
