// A control group for the ranks of a run, where this user may make one: it can be killed at once, and nothing leaves it by
// forking.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace hookline {

/// A child of this process's own group (version 2), with cgroup.kill, which Linux has since 5.14. Processes stay in it
/// unless somebody who may do so moves them.
class RunCgroup {
 public:
  RunCgroup() = default;  // none

  /// None, and `why_not` says why, where the system lets this user make none. Ends what launches have left in groups beside
  /// it: those of which no process is there any more that has the group open.
  static RunCgroup make(std::string& why_not);
  RunCgroup(RunCgroup&&) = default;
  RunCgroup& operator=(RunCgroup&&) = default;

  bool exists() const { return kill_.is_open(); }
  const std::filesystem::path& path() const { return path_; }

  std::vector<int> descriptors() const { return {folder_.get(), kill_.get(), events_.get(), lock_.get()}; }
  /// A descriptor of its folder, for ChildSpec; -1 if there is no group.
  int folder() const { return folder_.get(); }
  /// Sends SIGKILL to all that are in it, without missing what they start meanwhile.
  void kill_all() const;
  bool holds_any() const;
  /// From the system, with the groups that ranks have made in it; false if somebody is still in one of them.
  bool remove();

 private:
  std::filesystem::path path_;
  FileDescriptor folder_, kill_, events_;
  FileDescriptor lock_;  // held by all processes of the launch that have it, the ranks apart
};

/// Where a run of this process would get its group; empty, and `why_not` says why, if it would get none.
std::string place_of_run_cgroup(std::string& why_not);

}  // namespace hookline
