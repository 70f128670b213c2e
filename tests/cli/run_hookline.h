// Runs the real `hookline` in a temporary folder.
#pragma once

#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {

/// A temporary folder to run in, where the test machine's config files and GPUs and some variables are
/// hidden; all other variables are inherited.
class Sandbox {
 public:
  ProcessOptions options(std::vector<std::string> arguments) const {
    ProcessOptions result;
    result.arguments = std::move(arguments);
    result.folder = folder.path();
    result.environment = {{"OMP_NUM_THREADS", std::nullopt}, {"CUDA_VISIBLE_DEVICES", ""}};
    for (const char* name :
         {"HOOKLINE_CONFIG", "HOOKLINE_PROFILE", "HOOKLINE_RUN_DIR", "HOOKLINE_STORE_FD", "HOOKLINE_TORCH"})
      result.environment[name] = std::nullopt;
    result.environment["XDG_CONFIG_HOME"] = (folder.path() / "xdg").string();
    return result;
  }

  ProcessResult run(std::vector<std::string> arguments) const {
    return run_process(HOOKLINE_BINARY, options(std::move(arguments)));
  }

  /// Writes an executable shell script, to launch or inspect.
  void script(const std::string& name, const std::string& body) const {
    folder.write(name, "#!/bin/sh\n" + body, true);
  }

  bool has(const std::string& name) const { return std::filesystem::exists(folder.path() / name); }
  std::string read(const std::string& name) const { return read_file(folder.path() / name); }

  /// The folder of the latest run.
  std::string run_folder() const {
    const auto runs = folder.path() / "hookline-runs";
    return (runs / std::filesystem::read_symlink(runs / "latest")).string();
  }

  TemporaryFolder folder;
};

}  // namespace hookline::testing
