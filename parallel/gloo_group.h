// A Gloo process group that can be left behind.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>

namespace hookline {

/// ProcessGroupGloo's destructor waits for every collective that was started, for as long as the group's timeout if a
/// peer does not answer. After a failure, abandon() the group first.
class GlooGroup : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// True as soon as no collective is under way; false if that takes longer than `patience`.
  bool idle_within(std::chrono::milliseconds patience);

  /// Closes the connections to the peers, whose collectives then fail at once, and keeps the group for as long as the
  /// process lives, since its threads still wait.
  static void abandon(c10::intrusive_ptr<GlooGroup> group);
};

}  // namespace hookline
