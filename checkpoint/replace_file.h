// Files of the user's that a verb writes.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// `file` holds `text`, on the disk, or what it held before: nothing in between, whatever happens. A link stays a link, and
/// permissions stay. A device or a pipe is written to, and stays what it is. Throws Error, naming the file and the reason.
void replace_file(const std::filesystem::path& file, const std::string& text);

}  // namespace hookline
