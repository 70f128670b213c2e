#include "launcher/supervise/guard.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
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
constexpr int kStillRunning = 1;  // the exit code then, of ranks that succeeded

[[noreturn]] void refuse(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

void pass_on(int signal, int to) {
  const auto byte = static_cast<unsigned char>(signal);
  // Nobody asks faster than the keeper reads; if it has gone, its end is the next thing to be noticed.
  [[maybe_unused]] const ssize_t sent = send(to, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Stops this process together with the keeper, which stops the ranks first, and continues both.
void suspend(pid_t keeper, int requests) {
  pass_on(SIGTSTP, requests);
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(keeper), &info, WSTOPPED | WEXITED | WNOWAIT);
  if (info.si_code != CLD_STOPPED) return;
  kill(getpid(), SIGSTOP);
  kill(keeper, SIGCONT);
}

/// The keeper's wait status.
int wait_for(pid_t keeper, int requests, Signals& signals) {
  while (true) {
    pollfd descriptor = {signals.descriptors()[0], POLLIN, 0};
    poll(&descriptor, 1, -1);
    while (const auto signal = signals.next()) {
      if (signal->number == SIGTSTP) {
        suspend(keeper, requests);
      } else if (signal->number != SIGCHLD) {
        pass_on(signal->number, requests);
      }
    }
    int status = 0;
    if (waitpid(keeper, &status, WNOHANG) == keeper) return status;
  }
}

std::string pids_of(const std::vector<SeenProcess>& processes) {
  std::string text;
  for (const SeenProcess& process : processes)
    text += (text.empty() ? "" : ", ") + std::to_string(process.pid);
  return text.empty() ? "none that /proc shows" : text;
}

}  // namespace

int run_guarded(Signals& signals, const std::function<int()>& keep) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refuse("socketpair");
  FileDescriptor ours(ends[0]), keepers(ends[1]);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) refuse("prctl");
  std::fflush(nullptr);
  const pid_t keeper = fork();
  if (keeper < 0) refuse("fork");
  if (keeper == 0) {
    // Whoever kills the launcher's process group, as `timeout` and runners of CI do, leaves one of the two. In the same
    // session: if this process is killed while both are stopped, the kernel continues the keeper, whose group is an orphan.
    setpgid(0, 0);
    ours.reset();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "hl-keeper");
    signals.take_from(std::move(keepers));
    std::exit(keep());  // what follows a run is its caller's, which this is a copy of
  }
  keepers.reset();
  const int status = wait_for(keeper, ours.get(), signals);
  const bool is_clean = kill_descendants(kPatienceAfterKill);
  if (!is_clean && !WIFSIGNALED(status)) {
    log::error("processes that the ranks started are still running, and SIGKILL does not end them: " +
               pids_of(descendants()) + "; look at them with: ps -o pid,stat,wchan,args -p PID");
    if (status == 0) return kStillRunning;
  }
  if (WIFSIGNALED(status)) {
    log::error("the launcher's keeper, which supervises the ranks, " + describe(outcome_of(status)) + "; " +
               (is_clean ? "all ranks were killed" : "ranks were killed, and some do not end"));
  }
  return exit_code(outcome_of(status));
}

}  // namespace hookline
