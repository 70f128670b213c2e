// What the threads of a process are doing, by gdb.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace hookline {

/// Starts gdb, which writes the stacks of all threads of `process` to `file`; returns at once, with gdb's process id, or
/// -1 if there is no gdb or it can't be started.
pid_t start_writing_stacks(pid_t process, const std::filesystem::path& file);

}  // namespace hookline
