// Files as other programs want them named.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// "file:///runs/a%20b": RFC 8089, whatever bytes the path has. A relative path counts from the current
/// folder.
std::string file_url(const std::filesystem::path& file);

}  // namespace hookline
