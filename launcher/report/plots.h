// The charts of a report as pictures, which a browser draws.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace hookline {

/// The first browser on PATH that is based on Chromium; empty if there is none.
std::string find_browser();

/// Draws each chart of `page`, a report, without a window; returns the pictures by the charts' names.
/// `format`: "png" or "svg". Throws Error if the browser can't be run, or draws nothing.
std::map<std::string, std::string> draw_plots(const std::filesystem::path& page, const std::string& format,
                                              const std::string& browser);

}  // namespace hookline
