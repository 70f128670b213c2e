#include "parallel/gloo_group.h"

#include <gloo/context.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace hookline {

bool GlooGroup::idle_within(std::chrono::milliseconds patience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (true) {
    {
      const std::lock_guard lock(workMutex_);
      const bool running = std::any_of(workInProgress_.begin(), workInProgress_.end(),
                                       [](const auto& work) { return work.defined(); });
      if (workQueue_.empty() && !running) return true;
    }
    if (std::chrono::steady_clock::now() >= give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void GlooGroup::abandon(c10::intrusive_ptr<GlooGroup> group) {
  for (const auto& context : group->contexts_) context->closeConnections();
  // Never destroyed: the groups' threads may still be waiting when the process ends.
  static auto& abandoned = *new std::vector<c10::intrusive_ptr<GlooGroup>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(group));
}

}  // namespace hookline
