// Reads one section of an executable or a shared library, without running or loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace hookline {

/// The bytes of `file`'s section `name`; nothing if `file` is not a 64-bit ELF file (a script, say) or has no
/// such section. Throws CatalogError, naming the file, if it can't be read or the section lies outside of it.
std::optional<std::string> read_elf_section(const std::filesystem::path& file, const std::string& name);

}  // namespace hookline
