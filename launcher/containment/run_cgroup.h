// A control group for the ranks of a run, where this user may make one. All its processes can be killed at
// once, and forking does not leave it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace hookline {

/// A child of this process's own control group (version 2), with cgroup.kill, which Linux has had since 5.14.
/// Processes stay in it unless somebody with permission moves them.
class RunCgroup {
 public:
  RunCgroup() = default;  // none

  /// Makes a group. Returns none, with the reason in `why_not`, if the system lets this user make none. Also
  /// kills what launches have left in groups beside it, if none of their own processes is alive.
  static RunCgroup make(std::string& why_not);
  RunCgroup(RunCgroup&&) = default;
  RunCgroup& operator=(RunCgroup&&) = default;

  bool exists() const { return kill_.is_open(); }
  const std::filesystem::path& path() const { return path_; }

  std::vector<int> descriptors() const { return {folder_.get(), kill_.get(), events_.get(), lock_.get()}; }
  /// A descriptor of its folder, for ChildSpec; -1 if there is no group.
  int folder() const { return folder_.get(); }
  /// Sends SIGKILL to all processes in it, including those that they start in the meantime.
  void kill_all() const;
  bool holds_any() const;
  /// Removes it, with the groups that ranks made in it. False if a process is still in one of them.
  bool remove();

 private:
  std::filesystem::path path_;
  FileDescriptor folder_, kill_, events_;
  FileDescriptor lock_;  // held by all processes of the launch except the ranks
};

/// The folder in which a run of this process would get its group; empty, with the reason in `why_not`, if it
/// would get none.
std::string place_of_run_cgroup(std::string& why_not);

}  // namespace hookline
