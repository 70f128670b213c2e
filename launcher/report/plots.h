// The charts of a report as pictures, which a browser draws.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hookline {

/// The file of the first browser of Chromium's kind on PATH; empty if there is none.
std::string find_browser();

/// Draws each chart of `page`, a report, into `folder` (made if need be) as NAME.png or NAME.svg (`format`), without a window.
/// Returns their files. Throws Error if the browser can't be run, or draws nothing.
std::vector<std::filesystem::path> write_plots(const std::filesystem::path& page,
                                               const std::filesystem::path& folder, const std::string& format,
                                               const std::string& browser);

}  // namespace hookline
