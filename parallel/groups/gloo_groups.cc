#include "parallel/groups/gloo_groups.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kTimeToLeave{100};  // for a thread that has just completed a collective
constexpr std::chrono::seconds kPatience{1};            // for a group that may be stuck

}  // namespace

void GlooGroups::add(c10::intrusive_ptr<GlooGroup> group) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(group)});
}

void GlooGroups::release(const GlooGroup* group) {
  std::vector<Entry> ended;  // outside the lock, since it joins threads
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) entry.is_released = entry.is_released || entry.group.get() == group;
    // A group whose own thread runs this is never idle, so it is not destroyed here.
    const auto over = std::stable_partition(entries_.begin(), entries_.end(), [](const Entry& entry) {
      return !entry.is_released || !entry.group->idle_within(kTimeToLeave);
    });
    ended.assign(std::make_move_iterator(over), std::make_move_iterator(entries_.end()));
    entries_.erase(over, entries_.end());
  }
}

void GlooGroups::end() {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_)
    if (!entry.group->idle_within(kPatience)) GlooGroup::abandon(std::move(entry.group));
  entries_.clear();
}

}  // namespace hookline
