// A signal that ends a rank, as an error file. Everything here is async-signal-safe.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace hookline {

/// A call of a stack: where it is in a program or library, for whoever knows its symbols.
struct FrameOfSignal {
  std::uintptr_t address = 0;
  std::uintptr_t offset = 0;     // in the module, as its own symbols count
  const char* module = nullptr;  // its path; none: the address is in no module
};

/// The innermost and the outermost calls of a stack, which may be a million calls deep.
class StackOfSignal {
 public:
  static constexpr std::size_t kInnermost = 64, kOutermost = 32;

  /// False once there are too many to go on.
  bool add(const FrameOfSignal& frame);
  std::size_t count() const { return count_; }
  /// How many frames are kept.
  std::size_t kept() const;
  /// One of the frames that are kept, innermost first. Sets `number` to its position in the whole stack.
  const FrameOfSignal& kept_at(std::size_t index, std::size_t& number) const;
  bool is_complete() const { return !is_cut_; }

 private:
  static constexpr std::size_t kMost = 2'000'000;
  FrameOfSignal innermost_[kInnermost], outermost_[kOutermost];
  std::size_t count_ = 0;
  bool is_cut_ = false;
};

struct SignalReport {
  siginfo_t info = {};
  std::uintptr_t stack_pointer = 0;
  pid_t process = 0, thread = 0;
  char thread_name[32] = "";
  std::time_t time = 0;
  std::int64_t step = -1;      // negative: none was told
  const char* hook = nullptr;  // may be none
};

/// Writes {"message": {"message": …, "extraInfo": {…}}}, with the stack if there is one. In each string every
/// byte is a character: names of files need not be UTF-8.
void write_signal_report(int file, const SignalReport& report, const StackOfSignal* stack);

}  // namespace hookline
