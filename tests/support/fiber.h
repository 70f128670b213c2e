// Functions that take turns on one thread, each with a stack of its own.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace hookline::testing {

#ifdef __x86_64__
/// Saves the callee-saved registers and continues where `to` stopped. swapcontext makes a system call each
/// time, which takes thirty times as long.
[[gnu::naked, gnu::noinline, gnu::no_sanitize_thread]] inline void switch_stacks([[maybe_unused]] void** from,
                                                                                 [[maybe_unused]] void* to) {
  asm("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdi);"
      "mov %rsi, %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret");
}
#endif

/// A suspended function. Default-constructed, it is the caller, on the thread's own stack.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 64 << 10;

  Fiber() = default;

  /// When first switched to, runs `entry`, which must call arrive_from first and must not return.
  explicit Fiber(void (*entry)()) {
    void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) throw std::bad_alloc();
    mapping_ = memory;
    stack_ = static_cast<char*>(memory) + kGuardBytes;
    stack_bytes_ = kStackBytes;
#ifdef __x86_64__
    void** top = reinterpret_cast<void**>(static_cast<char*>(memory) + kGuardBytes + kStackBytes);
    *--top = nullptr;  // return address of `entry`; leaves the stack as after a call
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    position_ = top;
#else
    getcontext(&position_);
    position_.uc_stack.ss_sp = static_cast<char*>(memory) + kGuardBytes;
    position_.uc_stack.ss_size = kStackBytes;
    makecontext(&position_, entry, 0);
#endif
  }

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// May be destroyed wherever it is suspended; destructors of objects on its stack do not run.
  ~Fiber() {
    if (!mapping_) return;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
    munmap(mapping_, kGuardBytes + kStackBytes);
  }

  /// Suspends this fiber, which is running; returns when `to` switches back, which no other fiber may do.
  void switch_to(Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fake_stack_, to.stack_, to.stack_bytes_);
#endif
#ifdef __x86_64__
    switch_stacks(&position_, to.position_);
#else
    swapcontext(&position_, &to.position_);
#endif
    arrive_from(to);
  }

  /// `from`: the fiber that has just switched to this one.
  void arrive_from([[maybe_unused]] Fiber& from) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack_, &from.stack_, &from.stack_bytes_);
#endif
  }

 private:
  static constexpr std::size_t kGuardBytes = 4 << 10;

  void* mapping_ = nullptr;
  const void* stack_ = nullptr;  // its lowest byte
  std::size_t stack_bytes_ = 0;
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack_ = nullptr;
#endif
#ifdef __x86_64__
  void* position_ = nullptr;
#else
  ucontext_t position_;
#endif
};

}  // namespace hookline::testing
