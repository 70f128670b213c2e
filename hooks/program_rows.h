// Reads the hooks that a program registers out of its executable, without running or loading it.
#pragma once

#include <filesystem>
#include <vector>

#include "hooks/catalog.h"

namespace hookline {

/// Name of the ELF section into which HOOKLINE_REGISTER_HOOK puts one NUL-terminated JSON row a hook.
inline constexpr const char* kProgramRowsSection = "hookline_hooks";

/// The rows in `file`'s section, in the order of the section; none if `file` is not a 64-bit ELF file (a
/// script, say) or has no such section. Throws CatalogError, naming the file, when the section holds a broken
/// row.
std::vector<HookRow> read_program_rows(const std::filesystem::path& file);

}  // namespace hookline
