// The process between launcher and agent, which cleans up when both are killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "launcher/containment/run_bounds.h"

namespace hookline {

/// The launcher's child and the agent's parent. It waits until the agent has ended, records the agent's
/// status for the launcher, kills and reaps everything that is left below it and within the bounds, and
/// ends. It has a session of its own, the name "run-sentinel", and no open files but /dev/null, standard
/// error and those of the bounds, so that what kills launcher and agent spares it. Only SIGKILL ends it. If
/// it is stopped, it continues when the launcher dies.
class Sentinel {
 public:
  /// Throws std::system_error if there is no memory to share.
  Sentinel();
  ~Sentinel();
  Sentinel(const Sentinel&) = delete;
  Sentinel& operator=(const Sentinel&) = delete;

  /// Like fork(), for the agent, with the sentinel in between: returns true in the agent and false in the
  /// launcher. Call it while the process has a single thread. Throws std::system_error if the system refuses
  /// to start the sentinel.
  bool fork_agent(RunBounds& bounds);

  pid_t pid() const { return pid_; }
  /// The agent's pid; 0 until it is started.
  pid_t agent() const;
  /// The agent's status as of waitpid(), once it has ended. It stays readable after the sentinel has ended.
  std::optional<int> agent_status() const;
  /// Did the sentinel find processes, after the agent ended, that SIGKILL does not end?
  bool has_given_up() const;
  /// Throws std::runtime_error if the system refused to start the agent. Call it once the sentinel has ended.
  void expect_agent() const;
  /// Continues the sentinel if it was stopped: while stopped, it could not clean up.
  void wake() const;

 private:
  struct Shared;

  [[noreturn]] void watch(pid_t agent, pid_t launcher, RunBounds& bounds);

  pid_t pid_ = 0;
  Shared* shared_;
};

/// How long processes that were sent SIGKILL may take to end.
inline constexpr std::chrono::seconds kPatienceAfterKill{5};

/// Renames this process for `ps`, `killall` and `pkill -f`: overwrites all its arguments, which are no longer
/// read, with `name`. Otherwise one word of the command line would end several processes of a launch at once.
void call_oneself(const char* name);

}  // namespace hookline
