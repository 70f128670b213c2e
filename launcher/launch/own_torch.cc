#include "launcher/launch/own_torch.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/regular_file.h"
#include "hooks/catalog/hook_rows.h"
#include "launcher/process/exit_code.h"
#include "launcher/rank/program.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "HOOKLINE_TORCH";
constexpr const char* kLibrary = "lib/libtorch_cpu.so";
constexpr std::uint64_t kMostHeaderBytes = 1 << 20;

/// The libtorch at or below `named`, as cmake/FindHooklineTorch.cmake looks for it; empty if there is none.
fs::path libtorch_at(const fs::path& named) {
  std::vector<fs::path> places = {named, named / "torch", named / "site-packages/torch"};
  std::error_code none;
  for (fs::directory_iterator each(named / "lib", none), end; each != end; each.increment(none))
    if (each->path().filename().string().starts_with("python3"))
      places.push_back(each->path() / "site-packages/torch");
  for (const fs::path& place : places)
    if (fs::exists(place / kLibrary, none)) return place;
  return {};
}

/// "2.15.0", by the headers of the libtorch in `root`; empty if it has none.
std::string version_of(const fs::path& root) {
  for (const char* name :
       {"include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"}) {
    InputFile header(root / name, kMostHeaderBytes);
    std::string version;
    for (std::string line; std::getline(header, line);)
      for (const std::string_view part : {"MAJOR ", "MINOR ", "PATCH "}) {
        const std::string start = "#define TORCH_VERSION_" + std::string(part);
        if (line.starts_with(start)) version += (version.empty() ? "" : ".") + line.substr(start.size());
      }
    if (!version.empty()) return version;
  }
  return {};
}

}  // namespace

fs::path torch_libraries_for(const fs::path& program) {
  const char* const named = std::getenv(kVariable);
  if (!named || !*named) return {};
  std::error_code none;
  const fs::path root = libtorch_at(fs::absolute(named, none));
  if (root.empty())
    throw ProgramError(std::string(kVariable) + " is '" + named + "', which has no " + kLibrary +
                           ": name a libtorch folder or a Python environment with torch, or unset it",
                       kNotFound);
  const std::string version = version_of(root), build = read_build(program);
  if (!version.empty() && !build.empty() && !build.starts_with("torch " + version + ","))
    throw ProgramError("HOOKLINE_TORCH is '" + std::string(named) + "', which is torch " + version +
                           ", and '" + program.string() + "' was built with " + build +
                           ": name that torch, or install the hookline for this one",
                       kNotExecutable);
  return root / "lib";
}

}  // namespace hookline
