#include "hooks/in_order.h"

#include <utility>

namespace hookline {

void InOrder::run(std::uint64_t ticket, std::function<void()> action) {
  std::unique_lock lock(mutex_);
  waiting_.emplace(ticket, std::move(action));
  if (running_) return;
  running_ = true;
  for (auto next = waiting_.find(next_turn_); next != waiting_.end(); next = waiting_.find(next_turn_)) {
    const std::function<void()> ready = std::move(next->second);
    waiting_.erase(next);
    ++next_turn_;
    lock.unlock();
    ready();
    lock.lock();
  }
  running_ = false;
}

}  // namespace hookline
