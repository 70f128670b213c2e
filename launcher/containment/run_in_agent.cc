#include "launcher/containment/run_in_agent.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "launcher/containment/process_tree.h"
#include "launcher/containment/sentinel.h"
#include "launcher/process/outcome.h"

namespace hookline {
namespace {

constexpr const char* kAgentName = "hl-agent";
constexpr std::chrono::seconds kPatienceWithSentinel{
    2};  // added to kPatienceAfterKill, which the sentinel itself waits
constexpr std::chrono::seconds kPatienceWithAgent{10};  // once asked to end; it waits for the ranks
constexpr int kStillRunning = 1;                        // exit code if processes are left after a success

using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

void pass_on(int signal, int to) {
  const auto byte = static_cast<unsigned char>(signal);
  // The agent reads requests faster than anybody sends them. If it is gone, the launcher notices its end
  // next.
  [[maybe_unused]] const ssize_t sent = send(to, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Has the agent stop the ranks and waits for that, then stops this process. Once this process continues, the
/// agent does too.
void suspend(int requests) {
  pass_on(SIGTSTP, requests);
  unsigned char ready = 0;
  ssize_t count;
  do {
    count = recv(requests, &ready, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count != 1) return;  // the agent has ended in the meantime
  kill(getpid(), SIGSTOP);
  pass_on(SIGCONT, requests);
}

struct RunEnd {
  std::optional<int> agent_status;  // as of waitpid(); none: it runs, or its status is unknown
  int told = 0;                     // the exit code that the agent reported; 0: none
  std::chrono::seconds patience = kPatienceAfterKill;  // left for processes that do not end
  bool sentinel_was_killed = false;                    // while the agent ran
};

/// What the agent reports, and whether it has closed its files, which a process does just before it ends.
class FromAgent {
 public:
  explicit FromAgent(int requests) : requests_(requests) {}
  /// Waits until something happens, but at most `time_ms`; -1: without limit.
  void wait(const Signals& signals, int time_ms) {
    pollfd descriptors[] = {{signals.descriptors()[0], POLLIN, 0}, {is_closed_ ? -1 : requests_, POLLIN, 0}};
    poll(descriptors, 2, time_ms);
    if (descriptors[1].revents == 0) return;
    unsigned char code = 0;
    if (recv(requests_, &code, 1, MSG_DONTWAIT) == 1)
      told_ = code;
    else
      is_closed_ = true;
  }
  int told() const { return told_; }
  bool is_closed() const { return is_closed_; }

 private:
  int requests_;
  int told_ = 0;
  bool is_closed_ = false;
};

constexpr int kLookAgainMs = 10;

void pass_signals_on(Signals& signals, int requests) {
  while (const auto signal = signals.next()) {
    if (signal->number == SIGTSTP) {
      suspend(requests);
    } else if (signal->number != SIGCHLD) {
      pass_on(signal->number, requests);
    }
  }
}

/// For a sentinel that was killed: the agent is now this process's child. The agent is asked to end, not
/// killed: whoever killed the sentinel may kill this process next, and then the agent must end the ranks.
void end_without_sentinel(RunEnd& end, pid_t agent, int requests, FromAgent& from_agent, Signals& signals) {
  int status = SIGKILL;
  const auto has_ended = [&] { return waitpid(agent, &status, WNOHANG) != 0; };
  if (agent == 0 || !has_ended()) {
    end.sentinel_was_killed = true;
    log::error("the launcher's sentinel was killed; killing the ranks");
    if (agent == 0) return;  // it has started no rank yet
    pass_on(SIGKILL, requests);
    const auto deadline = Clock::now() + kPatienceWithAgent;
    while (!has_ended()) {
      if (Clock::now() >= deadline) return;
      from_agent.wait(signals, kLookAgainMs);
      pass_signals_on(signals, requests);
    }
  }
  end.agent_status = status;
}

RunEnd wait_for(const Sentinel& sentinel, int requests, Signals& signals) {
  RunEnd end;
  FromAgent from_agent(requests);
  std::optional<Clock::time_point> deadline;  // set once the agent has closed its files
  int status = 0;
  while (waitpid(sentinel.pid(), &status, WNOHANG) != sentinel.pid()) {
    from_agent.wait(signals, deadline ? kLookAgainMs : -1);
    pass_signals_on(signals, requests);
    if (!from_agent.is_closed()) continue;
    // Never kill the sentinel here: if this process is killed too, the sentinel ends the ranks.
    sentinel.wake();
    if (!deadline) deadline = Clock::now() + kPatienceAfterKill + kPatienceWithSentinel;
    if (Clock::now() < *deadline) continue;
    end.told = from_agent.told();
    return end;
  }
  sentinel.expect_agent();
  end.agent_status = sentinel.agent_status();
  if (end.agent_status) {
    if (sentinel.has_given_up()) end.patience = std::chrono::seconds(0);  // the sentinel waited for them
  } else {
    end_without_sentinel(end, sentinel.agent(), requests, from_agent, signals);
  }
  end.told = from_agent.told();
  return end;
}

/// How to find the processes that a message speaks of.
std::string place_of(const std::vector<SeenProcess>& processes) {
  std::string pids;
  for (const SeenProcess& process : processes)
    pids += (pids.empty() ? "" : ", ") + std::to_string(process.pid);
  if (pids.empty()) return "; /proc does not show which ones";
  return ": " + pids + "; look at them with: ps -o pid,stat,wchan,args -p PID";
}

std::vector<SeenProcess> others_than(const std::set<pid_t>& pids, std::vector<SeenProcess> processes) {
  std::erase_if(processes, [&](const SeenProcess& process) { return pids.contains(process.pid); });
  return processes;
}

}  // namespace

int run_in_agent(Signals& signals, RunBounds& bounds, const std::function<int()>& work) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refuse("socketpair");
  FileDescriptor ours(ends[0]), agents(ends[1]);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) refuse("prctl");
  Sentinel sentinel;
  if (sentinel.fork_agent(bounds)) {
    // A kill of the launcher's process group, as by `timeout` and CI runners, must spare the agent.
    setpgid(0, 0);
    ours.reset();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    call_oneself(kAgentName);
    signals.take_from(std::move(agents));
    const int code = work();
    bounds.remove();  // in case launcher and sentinel are gone; otherwise they look again
    // Before exiting: the kernel keeps the first process of a namespace until all others have ended.
    signals.send_to_launcher(static_cast<unsigned char>(code));
    std::exit(code);  // this is a copy of the caller, which must not continue here
  }
  agents.reset();
  const RunEnd end = wait_for(sentinel, ours.get(), signals);
  const bool has_ended = end.agent_status || end.sentinel_was_killed;
  const bool was_killed = end.agent_status && WIFSIGNALED(*end.agent_status);
  const bool is_clean = has_ended && kill_descendants(end.patience, bounds) && bounds.remove();
  const int code = end.agent_status          ? exit_code(outcome_of(*end.agent_status))
                   : end.sentinel_was_killed ? exit_code(Signalled{SIGKILL})
                                             : end.told;
  if (!is_clean && !was_killed) {
    log::error("processes that the ranks started are still running, and SIGKILL does not end them" +
               place_of(others_than({sentinel.pid(), sentinel.agent()}, descendants())));
    // The kernel ends what is left along with the namespace. Until then the sentinel would hold standard
    // error open.
    if (!has_ended && bounds.are_isolating()) kill(sentinel.pid(), SIGKILL);
    return code == 0 ? kStillRunning : code;
  }
  if (was_killed) {
    log::error("the launcher's agent, which supervises the ranks, " +
               describe(outcome_of(*end.agent_status)) + "; " +
               (is_clean ? "all ranks were killed" : "ranks were killed, and some do not end"));
  }
  return code;
}

}  // namespace hookline
