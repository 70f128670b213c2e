// Reports fatal signals of a rank, with step and stack, in its error file.
#pragma once

#include <cstdint>
#include <string>

namespace hookline {

/// Installs handlers that report a SIGSEGV, SIGABRT, SIGBUS, SIGFPE or SIGILL to `error_file` before it ends
/// this process, in the format of write_error_file: the signal, the address, the step, and the stack of the
/// receiving thread as modules and offsets, which the launcher resolves to names. An existing error file is
/// not overwritten. The signal then takes its default action, so exit status and core dump are as usual.
///
/// A signal that already has a handler, the program's or a sanitizer's, keeps it; a handler that is installed
/// later may call the one that it replaces. Forked children report nothing. The calling thread gets an
/// alternate signal stack, unless it has one, so that its stack overflows can be reported; overflows of
/// threads without an alternate stack can't. Later calls have no effect. Not thread-safe.
void report_fatal_signals(const std::string& error_file);

/// Sets the step that the report names; negative: unknown. Lock-free; any thread may call it.
void set_step_of_fatal_signals(std::int64_t step);

/// Sets the hook that the report names. Call it only when a hook is made: each new name stays in memory.
void set_hook_of_fatal_signals(const std::string& hook);

}  // namespace hookline
