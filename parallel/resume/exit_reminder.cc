#include "parallel/resume/exit_reminder.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

namespace hookline {
namespace {

struct Reminders {
  std::mutex mutex;
  std::map<const ExitReminder*, std::pair<pid_t, std::function<void()>>> all;
};

/// Never destroyed: objects that outlive main() may still remove their reminders.
Reminders& reminders() {
  static auto* const reminders = new Reminders;
  return *reminders;
}

void remind_all() {
  std::map<const ExitReminder*, std::pair<pid_t, std::function<void()>>> all;
  {
    const std::lock_guard lock(reminders().mutex);
    all.swap(reminders().all);
  }
  for (const auto& [owner, reminder] : all)
    if (reminder.first == getpid()) reminder.second();
}

}  // namespace

ExitReminder::ExitReminder(std::function<void()> remind) {
  static const int registered = std::atexit(remind_all);
  static_cast<void>(registered);
  const std::lock_guard lock(reminders().mutex);
  reminders().all.emplace(this, std::pair(getpid(), std::move(remind)));
}

ExitReminder::~ExitReminder() {
  const std::lock_guard lock(reminders().mutex);
  reminders().all.erase(this);
}

}  // namespace hookline
