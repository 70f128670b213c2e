// A PID namespace for the processes of a run. When its first process ends, the kernel ends all others,
// however they have detached themselves.
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

/// Like fork(), but the child is process 1 of a PID namespace of its own, and sees that namespace in /proc,
/// in a mount namespace of its own. A user without CAP_SYS_ADMIN also gets a user namespace, in which user
/// and group keep their numbers. When the child ends, the kernel ends all processes of the namespace, and the
/// child can be reaped only after them. Returns the child's pid outside the namespace. Call it while the
/// process has a single thread. Throws NamespaceRefused.
pid_t fork_into_pid_namespace();

/// Why fork_into_pid_namespace() would fail here; none if it would not. Makes a namespace and gives it up
/// again.
std::optional<NamespaceRefusal> pid_namespace_refusal();

}  // namespace hookline
