#include "parallel/rank/signal_report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace hookline {
namespace {

/// An access this close to the stack pointer, at the end of the stack, is a stack overflow.
constexpr std::uintptr_t kNearStackPointer = 64 * 1024;

/// Text to a file, in blocks.
class Writer {
 public:
  explicit Writer(int file) : file_(file) {}
  ~Writer() { flush(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Writer& operator<<(std::string_view text) {
    for (const char c : text) put(c);
    return *this;
  }
  Writer& number(std::int64_t value) {
    if (value < 0) put('-');
    return digits(value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value), 10);
  }
  Writer& address(std::uint64_t value) { return (*this << "0x").digits(value, 16); }
  /// Writes the content of a JSON string.
  Writer& escaped(std::string_view text) {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        put('\\');
        put(c);
      } else if (byte < 0x20 || byte >= 0x7f) {
        *this << (byte < 0x10 ? "\\u000" : "\\u00");
        digits(byte, 16);
      } else {
        put(c);
      }
    }
    return *this;
  }

 private:
  void put(char c) {
    if (used_ == sizeof block_) flush();
    block_[used_++] = c;
  }
  Writer& digits(std::uint64_t value, unsigned base) {
    char text[24];
    std::size_t begin = sizeof text;
    do {
      text[--begin] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value > 0);
    return *this << std::string_view(text + begin, sizeof text - begin);
  }
  void flush() {
    for (std::size_t done = 0; done < used_;) {
      const ssize_t count = write(file_, block_ + done, used_ - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;  // there is no way to report this
      done += static_cast<std::size_t>(count);
    }
    used_ = 0;
  }

  int file_;
  char block_[512];
  std::size_t used_ = 0;
};

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    default:
      return "SIGILL";
  }
}

bool has_overflowed(const SignalReport& report) {
  const auto address = reinterpret_cast<std::uintptr_t>(report.info.si_addr);
  const std::uintptr_t pointer = report.stack_pointer;
  return pointer > kNearStackPointer && address + kNearStackPointer > pointer &&
         address < pointer + kNearStackPointer;
}

void write_memory_fault(Writer& out, const SignalReport& report) {
  const auto address = reinterpret_cast<std::uintptr_t>(report.info.si_addr);
  if (report.info.si_code != SEGV_MAPERR && report.info.si_code != SEGV_ACCERR) {
    // The processor does not report which invalid address it was.
    out << "the program used a pointer that holds no valid address, such as one that was freed or "
           "overwritten";
  } else if (has_overflowed(report)) {
    out << "the thread's stack overflowed at address ";
    out.address(address) << ", as it does in infinite recursion";
  } else if (report.info.si_code == SEGV_MAPERR) {
    out << "the program used address ";
    out.address(address) << ", where there is no memory";
  } else {
    out << "the program used address ";
    out.address(address) << " in a way that its memory does not permit";
  }
}

void write_reason(Writer& out, const SignalReport& report) {
  const siginfo_t& info = report.info;
  const bool was_sent = info.si_code <= 0;
  if (was_sent && info.si_pid == 0) {  // it has no id in the rank's PID namespace
    out << "a process outside of the run sent it";
    return;
  }
  if (was_sent && info.si_pid != report.process) {
    out << "process ";
    out.number(info.si_pid) << " sent it";
    return;
  }
  if (info.si_signo == SIGABRT) {
    out << "the program called abort(), as a failed assert does; what it wrote to standard error may say why";
    return;
  }
  if (was_sent) {
    out << "the program sent it to itself";
    return;
  }
  switch (info.si_signo) {
    case SIGSEGV:
      return write_memory_fault(out, report);
    case SIGBUS:
      out << "the memory at address ";
      out.address(reinterpret_cast<std::uintptr_t>(info.si_addr))
          << " is not available: its file was truncated, its disk or /dev/shm is full, or the address is "
             "not aligned";
      return;
    case SIGFPE:
      if (info.si_code == FPE_INTDIV)
        out << "an integer was divided by zero, or the result does not fit";
      else
        out << "an arithmetic operation failed, and the program has asked for a signal if one does";
      out << ", at address ";
      break;
    default:
      out << "the processor does not know the instruction: the program may be built for another one; at "
             "address ";
  }
  out.address(reinterpret_cast<std::uintptr_t>(info.si_addr));
}

void write_stack(Writer& out, const StackOfSignal& stack) {
  out << R"(, "frames": )";
  out.number(static_cast<std::int64_t>(stack.count()));
  if (!stack.is_complete()) out << R"(, "frames_cut": true)";
  out << R"(, "stack": [)";
  for (std::size_t index = 0; index < stack.kept(); ++index) {
    std::size_t number = 0;
    const FrameOfSignal& frame = stack.kept_at(index, number);
    out << (index ? ", " : "") << R"({"frame": )";
    out.number(static_cast<std::int64_t>(number)) << R"(, "address": ")";
    out.address(frame.address) << "\"";
    if (frame.module) {
      out << R"(, "offset": ")";
      out.address(frame.offset) << R"(", "module": ")";
      out.escaped(frame.module) << "\"";
    }
    out << "}";
  }
  out << "]";
}

}  // namespace

bool StackOfSignal::add(const FrameOfSignal& frame) {
  if (count_ == kMost) {
    is_cut_ = true;
    return false;
  }
  if (count_ < kInnermost)
    innermost_[count_] = frame;
  else
    outermost_[(count_ - kInnermost) % kOutermost] = frame;
  ++count_;
  return true;
}

std::size_t StackOfSignal::kept() const { return std::min(count_, kInnermost + kOutermost); }

const FrameOfSignal& StackOfSignal::kept_at(std::size_t index, std::size_t& number) const {
  number = index < kInnermost ? index : count_ - kept() + index;
  return number < kInnermost ? innermost_[number] : outermost_[(number - kInnermost) % kOutermost];
}

void write_signal_report(int file, const SignalReport& report, const StackOfSignal* stack) {
  Writer out(file);
  out << R"({"message": {"message": ")";
  write_reason(out, report);
  out << R"(", "extraInfo": {"py_callstack": "", "timestamp": ")";
  out.number(report.time) << R"(", "type": ")" << name_of(report.info.si_signo) << "\"";
  if (report.step >= 0) {
    out << R"(, "step": )";
    out.number(report.step);
  }
  if (report.hook && *report.hook) {
    out << R"(, "hook": ")";
    out.escaped(report.hook) << "\"";
  }
  out << R"(, "thread": )";
  out.number(report.thread) << R"(, "thread_name": ")";
  out.escaped(report.thread_name) << "\"";
  if (stack) write_stack(out, *stack);
  out << "}}}";
}

}  // namespace hookline
