// The process between guard and agent, which cleans up when both are killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "launcher/containment/run_bounds.h"

namespace hookline {

/// The guard's child and the agent's parent. It waits until the agent has ended, kills and reaps everything that is left
/// below it and within the bounds, leaves word for the guard, and ends. It has a session of its own, the name
/// "run-sentinel", and no open files but standard error, so that what meets guard and agent spares it. No signal but
/// SIGKILL ends it, and one that was stopped goes on when the guard dies.
class Sentinel {
 public:
  /// Throws std::system_error if there is no memory to share.
  Sentinel();
  ~Sentinel();
  Sentinel(const Sentinel&) = delete;
  Sentinel& operator=(const Sentinel&) = delete;

  /// As fork(), of the agent, with the sentinel in between: returns true in the agent and false in the guard. Call it
  /// without other threads. Throws std::system_error if the system refuses the sentinel.
  bool fork_agent(RunBounds& bounds);

  pid_t pid() const { return pid_; }
  /// 0 until there is one.
  pid_t agent() const;
  /// The agent's, as of waitpid(), once it has ended. It stays readable when the sentinel has ended too.
  std::optional<int> agent_status() const;
  /// After the agent's end it found processes that SIGKILL does not end.
  bool has_given_up() const;
  /// Once it has ended: throws std::runtime_error if the system refused the agent.
  void expect_agent() const;
  /// It could not clean up while it is stopped.
  void wake() const;

 private:
  struct Shared;

  [[noreturn]] void watch(pid_t agent, pid_t guard, RunBounds& bounds);

  pid_t pid_ = 0;
  Shared* shared_;
};

/// How long processes that were sent SIGKILL may take to end.
inline constexpr std::chrono::seconds kPatienceAfterKill{5};

/// For `ps`, `killall` and `pkill -f`, which would else end several processes of a launch at once by a word of the command
/// line: puts `name` in the place of all arguments, which nobody reads any more.
void call_oneself(const char* name);

}  // namespace hookline
