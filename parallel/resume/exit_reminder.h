// What is still to be done when the program calls std::exit, which destroys no local object.
#pragma once

#include <functional>

namespace hookline {

/// Calls `remind` when the process exits by std::exit while this object lives: not if it was destroyed
/// before, not in a process that was forked since, and not after std::_Exit. Thread-safe.
class ExitReminder {
 public:
  explicit ExitReminder(std::function<void()> remind);
  ~ExitReminder();
  ExitReminder(const ExitReminder&) = delete;
  ExitReminder& operator=(const ExitReminder&) = delete;
};

}  // namespace hookline
