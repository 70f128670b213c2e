// What a rank says of a signal that ends it: step and stack, in its error file.
#pragma once

#include <cstdint>
#include <string>

namespace hookline {

/// From now on a SIGSEGV, SIGABRT, SIGBUS, SIGFPE or SIGILL that ends this process is first written to `error_file`, in the form
/// that write_error_file has: the signal, the address, the step, and the stack of the thread that it met, as modules and
/// offsets, which the launcher turns into names. An error file that is there already stays. Then the signal takes effect as it
/// would have: exit status and core dump are the system's.
///
/// A signal that has a handler by now, be it the program's or a sanitizer's, keeps it; one that gets a handler later may call
/// ours, as it may any that it replaces. A child of this process that was forked writes nothing. The calling thread gets
/// an alternate stack, unless it has one, so that an overflow of its own stack can be written down; of an overflow in a
/// thread that has none nothing can be. The first call counts. Not for several threads at once.
void report_fatal_signals(const std::string& error_file);

/// What the report says of the place; lock-free, from any thread. Negative: not known.
void set_step_of_fatal_signals(std::int64_t step);

/// What the gradients go through; as rare as hooks are made.
void set_hook_of_fatal_signals(const std::string& hook);

}  // namespace hookline
