// A PID namespace for the processes of a run, which end with its first process, whatever they have done to detach themselves.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stdexcept>
#include <string>

namespace hookline {

/// Why the system grants no PID namespace, and what to do about it: each a clause without a full stop.
struct NamespaceRefusal {
  std::string why, remedy;
};

class NamespaceRefused : public std::runtime_error {
 public:
  explicit NamespaceRefused(const NamespaceRefusal& refusal)
      : std::runtime_error("no PID namespace can be made: " + refusal.why + "\n  " + refusal.remedy),
        refusal_(refusal) {}
  const NamespaceRefusal& refusal() const { return refusal_; }

 private:
  NamespaceRefusal refusal_;
};

/// As fork(), but the child is process 1 of a PID namespace of its own, with a /proc that shows this namespace, in a mount
/// namespace of its own. Whoever lacks CAP_SYS_ADMIN gets a user namespace besides, in which user and group have the
/// numbers that they have outside. The kernel ends all processes of the namespace when the child ends, and lets nobody
/// reap the child before. Returns the child's number outside; call it without other threads. Throws NamespaceRefused.
pid_t fork_into_pid_namespace();

/// Why fork_into_pid_namespace() would fail here: makes a namespace and gives it back. None if it would not.
std::optional<NamespaceRefusal> pid_namespace_refusal();

}  // namespace hookline
