// The charts of a report as pictures, which a browser draws.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace hookline {

/// The file of the first browser of Chromium's kind on PATH; empty if there is none.
std::string find_browser();

/// Each chart of `page`, a report, as a picture (`format`: "png" or "svg"), by the chart's name; drawn without a window.
/// Throws Error if the browser can't be run, or draws nothing.
std::map<std::string, std::string> draw_plots(const std::filesystem::path& page, const std::string& format,
                                              const std::string& browser);

}  // namespace hookline
