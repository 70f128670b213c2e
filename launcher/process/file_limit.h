// Raises the number of files that a process may have open: the launcher needs five for each rank.
#pragma once

#include <sys/resource.h>

namespace hookline {

/// While it lives, this process may have as many files open as the system allows it; its children are to have
/// the limit that was there before.
class RaisedFileLimit {
 public:
  RaisedFileLimit() {
    getrlimit(RLIMIT_NOFILE, &former_);
    const rlimit highest = {former_.rlim_max, former_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &highest);
  }
  ~RaisedFileLimit() { restore(); }
  RaisedFileLimit(const RaisedFileLimit&) = delete;
  RaisedFileLimit& operator=(const RaisedFileLimit&) = delete;

  /// For a child between fork and exec too.
  void restore() const { setrlimit(RLIMIT_NOFILE, &former_); }

 private:
  rlimit former_;
};

}  // namespace hookline
