// Memory that several processes map.
#pragma once

#include <cstddef>

namespace hookline {

/// Memory shared by the processes that hold its descriptor. It has no name in any file system, so nothing has
/// to be removed: the kernel frees it with the last process that maps it, however that process ends. The
/// memory counts against the limits that hold for the process (cgroup, ulimit), but not against the size of
/// /dev/shm. Neither copyable nor movable.
class SharedSegment {
 public:
  /// A new one of `bytes` zeros. Pages take memory once they are written. Throws Error with the system's
  /// reason.
  explicit SharedSegment(std::size_t bytes);

  /// Maps the segment behind `descriptor`, which it takes over and closes. Throws Error if that is not a
  /// segment of `bytes`.
  SharedSegment(int descriptor, std::size_t bytes);

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// The descriptor, for handing the segment over; this object keeps owning it.
  int descriptor() const { return descriptor_; }

 private:
  void map();

  int descriptor_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace hookline
