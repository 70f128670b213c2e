// Starts one process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace hookline {

struct ChildSpec {
  std::string program;                   // path of an executable; PATH is not searched
  std::vector<std::string> arguments;    // argv[0] included
  std::vector<std::string> environment;  // "NAME=value"
  int standard_output = 1;
  int standard_error = 2;
  std::vector<int> inherited;  // descriptors that stay open under their numbers, though close-on-exec here
  std::vector<int> cores;      // that it may run on; empty: those of this process
  // Descriptor of the folder of the control group that the child starts in, or into which it moves itself
  // if the kernel can't start it there; -1: this process's control group.
  int cgroup = -1;
  std::function<void()> before_exec;  // runs in the child: async-signal-safe calls only
};

/// A process that could not be started; error_number() is errno's.
class SpawnError : public std::runtime_error {
 public:
  SpawnError(const std::string& what, int error_number, bool in_exec);
  int error_number() const { return error_number_; }
  bool in_exec() const { return in_exec_; }  // execve() failed: the file could not be run

 private:
  int error_number_;
  bool in_exec_;
};

/// Starts a child process that leads its own process group and reads from /dev/null. The kernel kills it when
/// the calling thread ends. Returns the process id once the program runs. Throws SpawnError.
pid_t spawn(const ChildSpec& spec);

}  // namespace hookline
