// The importers, one for each kind of configuration; each throws ImportError.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/import/imported.h"
#include "launcher/import/launch_line.h"

namespace hookline {

/// Accelerate's YAML (default_config.yaml), of any distributed type.
Imported import_accelerate(const std::string& text);

/// A command line of `accelerate launch`, on top of the config file that it names. `script`: the file that it
/// is in.
Imported import_accelerate_launch(const LaunchLine& line, const std::filesystem::path& script);

/// A command line of torchrun, or of `python -m torch.distributed.run`.
Imported import_torchrun(const LaunchLine& line);

/// DeepSpeed's hostfile: "host slots=8" a line.
Imported import_hostfile(const std::string& text);

}  // namespace hookline
