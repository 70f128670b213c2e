// What holds all processes of a run, however they detach themselves, so that all of them can be ended.
#pragma once

#include <sys/types.h>

#include <vector>

#include "launcher/containment/run_cgroup.h"

namespace hookline {

/// A PID namespace, if the run is isolated; else a control group, where this user may make one; else nothing,
/// and the run is what descends from its agent.
class RunBounds {
 public:
  RunBounds() = default;  // nothing
  explicit RunBounds(bool is_isolated);
  ~RunBounds() { remove(); }
  RunBounds(const RunBounds&) = delete;
  RunBounds& operator=(const RunBounds&) = delete;

  /// Like fork(), for the agent. Throws NamespaceRefused if the run can't be isolated.
  pid_t fork_agent();

  bool are_isolating() const { return is_isolated_; }
  /// Descriptors that the launcher's processes must keep open.
  std::vector<int> descriptors() const { return cgroup_.descriptors(); }

  /// The folder of the control group that ranks are to be in; -1 if there is none.
  int cgroup() const { return cgroup_.folder(); }
  /// Sends SIGKILL to all processes inside at once, except the agent, so that none can start another one in
  /// time.
  void kill_all() const;
  bool hold_any() const { return cgroup_.holds_any(); }
  /// Removes the bounds from the system, after the run. False if processes are still inside.
  bool remove() { return cgroup_.remove(); }

 private:
  bool is_isolated_ = false;
  bool is_first_in_namespace_ = false;
  RunCgroup cgroup_;
};

}  // namespace hookline
