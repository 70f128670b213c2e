// Replaces a user's file atomically.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// Atomically replaces the contents of `file` with `text`: after a crash, the disk holds the old or the new
/// contents. Keeps permissions and links; a device or a pipe is written to directly. Throws Error, naming the
/// file and the reason.
void replace_durably(const std::filesystem::path& file, const std::string& text);

/// Why replace_durably would fail, as far as can be told without writing: missing folder, a folder of that
/// name, permissions. Empty if there is no obstacle. For verbs that ask questions first and write at the end.
std::string replace_problem(const std::filesystem::path& file);

}  // namespace hookline
