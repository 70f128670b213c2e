// The Gloo groups of a World, each of which ends with whatever uses it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "parallel/groups/gloo_group.h"

namespace hookline {

/// Thread-safe.
class GlooGroups {
 public:
  void add(c10::intrusive_ptr<GlooGroup> group);

  /// Call it when no more collectives of `group` will start. The group ends with the caller's reference, or,
  /// if collectives are still in progress, during a later call. The group's own threads may call this.
  void release(const GlooGroup* group);

  /// Ends all groups; leaves those behind whose collectives are stuck.
  void end();

 private:
  struct Entry {
    c10::intrusive_ptr<GlooGroup> group;
    bool is_released = false;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace hookline
