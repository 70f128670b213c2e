// Passing shared memory from one process to others of the same machine.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "shared_memory/segment.h"

namespace hookline {

/// Offers a segment to processes of the same user and network namespace, over a Unix socket without a name in
/// the file system. A process of the same user that knows the address, which holds a random number, gets the
/// segment.
class SegmentSource {
 public:
  /// Throws Error with the system's reason.
  explicit SegmentSource(const SharedSegment& segment);
  ~SegmentSource();
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;

  /// The address to give to the receivers: printable characters, without spaces.
  const std::string& address() const { return address_; }

  /// Hands the segment to `receivers` processes, one after another. Throws Error if they do not come in time.
  void hand_over(int receivers, std::chrono::milliseconds timeout);

 private:
  bool serve_one(std::chrono::steady_clock::time_point until);

  const SharedSegment& segment_;
  std::string token_;
  int socket_ = -1;
  std::string address_;
};

/// Fetches the segment of `bytes` that a SegmentSource offers at `address`. Throws Error if that can't be
/// reached from here, as from another host or network namespace, or does not answer in time.
std::unique_ptr<SharedSegment> receive_segment(const std::string& address, std::size_t bytes,
                                               std::chrono::milliseconds timeout);

}  // namespace hookline
