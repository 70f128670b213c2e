// Files of the user's that a verb writes.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// `file` holds `text`, on the disk, or what it held before: nothing in between, whatever happens. A link stays a link, and
/// permissions stay. A device or a pipe is written to, and stays what it is. Throws Error, naming the file and the reason.
void replace_file(const std::filesystem::path& file, const std::string& text);

/// Why replace_file would fail, as far as that shows without writing: no such folder, a folder of that name, permissions.
/// Empty if nothing of it is so. For verbs that ask first and write at their end.
std::string replace_problem(const std::filesystem::path& file);

}  // namespace hookline
