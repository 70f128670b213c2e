// Plug-ins: shared libraries whose hooks join a process's registry.
#pragma once

#include <filesystem>

#include "hooks/registry/registry.h"

namespace hookline {

/// Loads the plug-in `file` into the process, for good, and adds its hooks to `registry`; nothing if they are
/// there already. The registry is left as it was if anything fails. Throws HookError naming the file: it is
/// missing, registers no hook or a taken name, was built with another torch or hookline than this
/// program, needs what the program does not export, or has a copy of hookline of its own.
void load_plugin(const std::filesystem::path& file, Registry& registry);
}  // namespace hookline
