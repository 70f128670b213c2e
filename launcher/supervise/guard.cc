#include "launcher/supervise/guard.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "hooks/log.h"
#include "launcher/supervise/file_descriptor.h"
#include "launcher/supervise/outcome.h"
#include "launcher/supervise/process_tree.h"

namespace hookline {
namespace {

constexpr std::chrono::seconds kPatienceAfterKill{5};
constexpr const char* kKeeperName = "hl-keeper";
constexpr int kStillRunning = 1;  // the exit code then, of ranks that succeeded

using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

void pass_on(int signal, int to) {
  const auto byte = static_cast<unsigned char>(signal);
  // Nobody asks faster than the keeper reads; if it has gone, its end is the next thing to be noticed.
  [[maybe_unused]] const ssize_t sent = send(to, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Stops this process once the keeper has stopped the ranks and waits, and has it go on afterwards.
void suspend(int requests) {
  pass_on(SIGTSTP, requests);
  unsigned char ready = 0;
  ssize_t count;
  do {
    count = recv(requests, &ready, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count != 1) return;  // it has ended meanwhile
  kill(getpid(), SIGSTOP);
  pass_on(SIGCONT, requests);
}

struct KeeperEnd {
  std::optional<int>
      status;    // of waitpid(); none: the kernel can't end a process of its namespace, and so not the keeper
  int told = 0;  // by itself before: its exit code
};

KeeperEnd wait_for(pid_t keeper, int requests, Signals& signals) {
  KeeperEnd end;
  std::optional<Clock::time_point> deadline;  // for the end of a keeper that has closed its files
  while (true) {
    pollfd descriptors[] = {{signals.descriptors()[0], POLLIN, 0}, {deadline ? -1 : requests, POLLIN, 0}};
    poll(descriptors, 2, deadline ? 10 : -1);
    if (descriptors[1].revents != 0) {
      unsigned char code = 0;
      if (recv(requests, &code, 1, MSG_DONTWAIT) == 1)
        end.told = code;
      else  // it has closed its files, which is among the last things that a process does
        deadline = Clock::now() + kPatienceAfterKill;
    }
    while (const auto signal = signals.next()) {
      if (signal->number == SIGTSTP) {
        suspend(requests);
      } else if (signal->number != SIGCHLD) {
        pass_on(signal->number, requests);
      }
    }
    int status = 0;
    if (waitpid(keeper, &status, WNOHANG) == keeper) {
      end.status = status;
      return end;
    }
    if (deadline && Clock::now() >= *deadline) return end;
  }
}

/// For `ps`, `killall` and `pkill -f`, which would else end both processes at once by a word of the command line: puts `name`
/// in the place of all arguments, which nobody reads any more.
void call_oneself(const char* name) {
  prctl(PR_SET_NAME, name);
  std::ifstream in("/proc/self/stat");
  std::string text;
  std::getline(in, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  constexpr int kFirst = 3, kArguments = 48;  // of the fields, as proc(5) counts them
  std::string passed_over;
  for (int field = kFirst; field < kArguments; ++field) fields >> passed_over;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || end < begin + std::strlen(name) + 1) return;
  char* const arguments = reinterpret_cast<char*>(begin);
  std::memset(arguments, 0, end - begin);
  std::strcpy(arguments, name);
}

std::string pids_of(const std::vector<SeenProcess>& processes) {
  std::string text;
  for (const SeenProcess& process : processes)
    text += (text.empty() ? "" : ", ") + std::to_string(process.pid);
  return text.empty() ? "none that /proc shows" : text;
}

std::vector<SeenProcess> others_than(pid_t pid, std::vector<SeenProcess> processes) {
  std::erase_if(processes, [&](const SeenProcess& process) { return process.pid == pid; });
  return processes;
}

}  // namespace

int run_guarded(Signals& signals, RunBounds& bounds, const std::function<int()>& keep) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refuse("socketpair");
  FileDescriptor ours(ends[0]), keepers(ends[1]);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) refuse("prctl");
  std::fflush(nullptr);
  const pid_t keeper = bounds.fork_keeper();
  if (keeper < 0) refuse("fork");
  if (keeper == 0) {
    // Whoever kills the launcher's process group, as `timeout` and runners of CI do, leaves one of the two.
    setpgid(0, 0);
    ours.reset();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    call_oneself(kKeeperName);
    signals.take_from(std::move(keepers));
    const int code = keep();
    bounds.remove();  // for the case that the guard is gone; else it looks again
    // The kernel holds the first process of a namespace up until all others have ended.
    signals.tell_guard(static_cast<unsigned char>(code));
    std::exit(code);  // what follows a run is its caller's, which this is a copy of
  }
  keepers.reset();
  const KeeperEnd end = wait_for(keeper, ours.get(), signals);
  const bool was_killed = end.status && WIFSIGNALED(*end.status);
  const bool is_clean = end.status && kill_descendants(kPatienceAfterKill, bounds) && bounds.remove();
  const int code = end.status ? exit_code(outcome_of(*end.status)) : end.told;
  if (!is_clean && !was_killed) {
    log::error("processes that the ranks started are still running, and SIGKILL does not end them: " +
               pids_of(others_than(keeper, descendants())) +
               "; look at them with: ps -o pid,stat,wchan,args -p PID");
    return code == 0 ? kStillRunning : code;
  }
  if (was_killed) {
    log::error("the launcher's keeper, which supervises the ranks, " + describe(outcome_of(*end.status)) +
               "; " + (is_clean ? "all ranks were killed" : "ranks were killed, and some do not end"));
  }
  return code;
}

}  // namespace hookline
