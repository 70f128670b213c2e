// Torch-free. Its handlers use no heap memory, locks or streams: a lock that the program held when the signal
// came is never released.
#include "parallel/rank/fatal_signals.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <string_view>

#include "parallel/rank/signal_report.h"

namespace hookline {
namespace {

constexpr std::array kFatal = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};

/// Room for nested handlers: unwinding a stack that was overwritten may raise a signal, too.
constexpr std::size_t kAlternateStackBytes = 256 * 1024;

static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);
std::atomic<std::int64_t> step_now{-1};
std::atomic<const char*> hook_now{nullptr};

/// Written before the handlers are installed, and only read afterwards.
char error_file[PATH_MAX];
char program[PATH_MAX];
pid_t process = 0;

std::atomic<pid_t> reporting_thread{0};
std::atomic<int> reported_signal{0};
StackOfSignal stack;  // of the one thread that reports

pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

/// Restores the default action of the signal.
void take_default_action(int signal) {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

[[noreturn]] void die_of(int signal) {
  take_default_action(signal);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  syscall(SYS_tgkill, getpid(), thread_id(), signal);
  _exit(128 + signal);  // a tracer may hold the signal back
}

/// True if the interrupted instruction will raise the signal again. The core dump then shows that instruction
/// instead of the handler.
bool comes_again(const siginfo_t& info) {
#ifdef BUS_MCEERR_AO
  if (info.si_signo == SIGBUS && info.si_code == BUS_MCEERR_AO) return false;
#endif
  return info.si_signo != SIGABRT && info.si_code > 0;
}

struct Registers {
  std::uintptr_t instruction = 0, stack_pointer = 0;
};

Registers registers_of(const ucontext_t& context) {
#if defined(__x86_64__)
  return {static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]),
          static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP])};
#elif defined(__aarch64__)
  return {static_cast<std::uintptr_t>(context.uc_mcontext.pc),
          static_cast<std::uintptr_t>(context.uc_mcontext.sp)};
#else
  return {};
#endif
}

/// After a call to an invalid address, the stack can't be unwound from there: act as if that call had
/// returned.
void leave_missing_function([[maybe_unused]] ucontext_t& context) {
#if defined(__x86_64__)
  auto& registers = context.uc_mcontext.gregs;
  registers[REG_RIP] = *reinterpret_cast<const greg_t*>(registers[REG_RSP]);
  registers[REG_RSP] += static_cast<greg_t>(sizeof(greg_t));
#elif defined(__aarch64__)
  context.uc_mcontext.pc = context.uc_mcontext.regs[30];
#endif
}

bool is_code(std::uintptr_t address) {
  dl_find_object object;
  return _dl_find_object(reinterpret_cast<void*>(address), &object) == 0;
}

FrameOfSignal frame_at(std::uintptr_t address, bool is_return_address) {
  FrameOfSignal frame;
  frame.address = address;
  dl_find_object object;
  // A return address may belong to the next line or function, so look up the call before it.
  const std::uintptr_t inside = is_return_address && address > 0 ? address - 1 : address;
  if (_dl_find_object(reinterpret_cast<void*>(inside), &object) != 0) return frame;
  frame.offset = inside - object.dlfo_link_map->l_addr;
  const char* const name = object.dlfo_link_map->l_name;
  frame.module = name && *name ? name : program;
  return frame;
}

struct Walk {
  std::uintptr_t begin = 0;  // the interrupted instruction; frames above it are the handler's
  bool begins_after_call = false;
  bool has_begun = false;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  int is_exact = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(context, &is_exact);
  if (address == 0) return _URC_END_OF_STACK;
  if (!walk.has_begun && address != walk.begin) return _URC_NO_REASON;
  const bool follows_call = is_exact == 0 || (!walk.has_begun && walk.begins_after_call);
  walk.has_begun = true;
  return stack.add(frame_at(address, follows_call)) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void walk_stack(ucontext_t& context) {
  const Registers met = registers_of(context);
  const auto saved = context.uc_mcontext;
  Walk walk{met.instruction};
  if (!is_code(met.instruction)) {
    stack.add(frame_at(met.instruction, false));
    leave_missing_function(context);
    walk.begin = registers_of(context).instruction;
    walk.begins_after_call = true;
  }
  _Unwind_Backtrace(take_frame, &walk);
  context.uc_mcontext = saved;
}

int open_error_file() {
  // Keep an existing file: it was written by the cause of this signal, such as an uncaught exception.
  return open(error_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
}

void report(const siginfo_t& info, ucontext_t& context) {
  const int file = open_error_file();
  if (file < 0) return;
  SignalReport text;
  text.info = info;
  text.stack_pointer = registers_of(context).stack_pointer;
  text.process = process;
  text.thread = reporting_thread;
  prctl(PR_GET_NAME, text.thread_name);
  text.time = std::time(nullptr);
  text.step = step_now;
  text.hook = hook_now;
  write_signal_report(file, text, nullptr);
  // If the stack can't be read, this report is left, and is complete.
  walk_stack(context);
  lseek(file, 0, SEEK_SET);
  write_signal_report(file, text, &stack);
  close(file);
}

void handle(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  if (getpid() == process) {
    pid_t nobody = 0;
    if (reporting_thread.compare_exchange_strong(nobody, thread_id())) {
      reported_signal = signal;
      report(*info, *static_cast<ucontext_t*>(context));
    } else if (nobody == thread_id()) {
      die_of(reported_signal);  // reading the stack has failed
    } else {
      // The signal of the thread that reports ends the process.
      for (int tenths = 0; tenths < 100; ++tenths) {
        const timespec tenth = {0, 100'000'000};
        nanosleep(&tenth, nullptr);
      }
    }
  }
  if (!comes_again(*info)) die_of(signal);
  take_default_action(signal);
  errno = error_number;
}

/// Gives the calling thread an alternate signal stack, unless it has one. It is never freed: a handler may
/// call exit() on it.
void make_alternate_stack() {
  stack_t now;
  if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t of_kernel = getauxval(AT_MINSIGSTKSZ);  // what it needs for the registers
  const std::size_t bytes = (kAlternateStackBytes + of_kernel + page - 1) / page * page + page;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;  // only the report of a stack overflow needs it
  mprotect(memory, page, PROT_NONE);
  stack_t ours = {};
  ours.ss_sp = static_cast<char*>(memory) + page;
  ours.ss_size = bytes - page;
  if (sigaltstack(&ours, nullptr) != 0) munmap(memory, bytes);
}

bool fits(std::string_view text, char (&into)[PATH_MAX]) {
  if (text.size() >= sizeof into) return false;
  std::copy(text.begin(), text.end(), into);
  into[text.size()] = '\0';
  return true;
}

}  // namespace

void report_fatal_signals(const std::string& file) {
  if (process == getpid() || !fits(file, error_file)) return;
  process = getpid();
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length > 0) fits({path, static_cast<std::size_t>(length)}, program);
  make_alternate_stack();
  // The first use of the unwinder may load libraries and allocate, so do it here.
  Walk nothing;
  _Unwind_Backtrace(take_frame, &nothing);

  struct sigaction ours = {};
  ours.sa_sigaction = handle;
  sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : kFatal) {
    struct sigaction now;
    if (sigaction(signal, nullptr, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
      sigaction(signal, &ours, nullptr);
  }
}

void set_step_of_fatal_signals(std::int64_t step) { step_now = step; }

void set_hook_of_fatal_signals(const std::string& hook) {
  // Names are never freed, since a handler may read an earlier one at any time.
  static std::deque<std::string>& hooks = *new std::deque<std::string>;
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (!hooks.empty() && hooks.back() == hook) return;
  hooks.push_back(hook);
  hook_now = hooks.back().c_str();
}

}  // namespace hookline
