#include "launcher/report/plots.h"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/lines.h"
#include "base/regular_file.h"
#include "launcher/process/file_url.h"
#include "launcher/process/shell.h"
#include "launcher/rank/program.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr const char* kBrowsers[] = {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
                                     "chrome",   "microsoft-edge",   "brave-browser"};
constexpr std::string_view kBegin = "<pre id=\"plots\">", kEnd = "</pre>";
constexpr const char* kBudgetMs = "600000";  // of the page's clock, which runs ahead while nothing happens

/// A temporary folder for the browser's files, removed with this object.
class Profile {
 public:
  Profile() {
    std::string name = (fs::temp_directory_path() / "hookline-plots-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error("can't make a temporary folder in '" + fs::temp_directory_path().string() + "'");
    path = name;
  }
  ~Profile() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  fs::path path;
};

/// Decodes RFC 4648, and skips other characters.
std::string from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    std::uint32_t six = 0;
    if (c >= 'A' && c <= 'Z')
      six = static_cast<std::uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      six = static_cast<std::uint32_t>(c - 'a') + 26;
    else if (c >= '0' && c <= '9')
      six = static_cast<std::uint32_t>(c - '0') + 52;
    else if (c == '+' || c == '/')
      six = c == '+' ? 62 : 63;
    else
      continue;
    bits = (bits << 6) | six;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 0xff);
  }
  return bytes;
}

/// Decodes percent-encoding: "%3Csvg".
std::string from_percent(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const std::string_view digits = text.substr(i + 1, 2);
      unsigned byte = 0;
      const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (digits.size() != 2 || problem != std::errc() || end != digits.data() + 2)
        throw Error("a chart is not a data: URL: it has a % without two digits behind it");
      bytes += static_cast<char>(byte);
      i += 2;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

/// Decodes "data:image/png;base64,…".
std::string from_data_url(std::string_view url) {
  const std::size_t comma = url.find(',');
  if (!url.starts_with("data:") || comma == url.npos) throw Error("a chart is not a data: URL");
  const bool is_base64 = url.substr(0, comma).ends_with(";base64");
  return is_base64 ? from_base64(url.substr(comma + 1)) : from_percent(url.substr(comma + 1));
}

}  // namespace

std::string find_browser() {
  for (const char* name : kBrowsers) {
    try {
      return find_program({name}, search_path()).executable.string();
    } catch (const ProgramError&) {  // try the next one
    }
  }
  return "";
}

std::map<std::string, std::string> draw_plots(const fs::path& page, const std::string& format,
                                              const std::string& browser) {
  const Profile profile;
  const fs::path dumped = profile.path / "dumped.html";
  std::vector<std::string> command = {browser,
                                      "--headless",
                                      "--disable-gpu",
                                      "--hide-scrollbars",
                                      "--enable-unsafe-swiftshader",  // WebGL without a GPU
                                      "--window-size=1400,1000",
                                      "--user-data-dir=" + (profile.path / "profile").string(),
                                      std::string("--virtual-time-budget=") + kBudgetMs};
  if (geteuid() == 0) command.push_back("--no-sandbox");  // root can't use the sandbox
  command.insert(command.end(), {"--dump-dom", file_url(page) + "#plots=" + format});
  const CommandOutput said =
      output_of({"sh", "-c", shell_line(command) + " > " + shell_word(dumped.string())});
  if (said.exit_code == 127) throw Error("there is no program '" + browser + "' to draw charts with");
  const std::string text = InputFile(dumped).read_all();
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd, begin);
  if (said.exit_code != 0 || begin == text.npos || end == text.npos) {
    throw Error("'" + browser + "' did not draw the charts (exit code " + std::to_string(said.exit_code) +
                "); it says: " + last_line(said.text));
  }
  const auto pictures = nlohmann::json::parse(
      from_base64(std::string_view(text).substr(begin + kBegin.size(), end - begin - kBegin.size())));
  std::map<std::string, std::string> plots;
  for (const auto& [name, url] : pictures.items())
    plots[name] = from_data_url(url.get_ref<const std::string&>());
  return plots;
}

}  // namespace hookline
