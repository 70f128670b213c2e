#include "launcher/containment/run_bounds.h"

#include <unistd.h>

#include <csignal>
#include <string>

#include "base/log.h"
#include "launcher/containment/pid_namespace.h"

namespace hookline {

RunBounds::RunBounds(bool is_isolated) : is_isolated_(is_isolated) {
  if (is_isolated_) return;
  std::string why_not;
  cgroup_ = RunCgroup::make(why_not);
  log::debug(cgroup_.exists() ? "the ranks' control group is " + cgroup_.path().string()
                              : "the ranks get no control group of their own: " + why_not);
}

pid_t RunBounds::fork_agent() {
  if (!is_isolated_) return fork();
  const pid_t agent = fork_into_pid_namespace();
  is_first_in_namespace_ = agent == 0;
  return agent;
}

void RunBounds::kill_all() const {
  if (is_first_in_namespace_) kill(-1, SIGKILL);  // to all but the caller
  cgroup_.kill_all();
}

}  // namespace hookline
