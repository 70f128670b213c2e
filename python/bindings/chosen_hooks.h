// What the config says of hooks, for Python.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/run_config.h"

namespace hookline {

struct ChosenHooks {
  DdpConfig ddp;
  std::string fsdp_comm_hook;  // of [fsdp]
  std::map<std::string, OptionValue>
      given;             // the keys of [ddp], [fsdp] and [training] that are set somewhere
  std::string warnings;  // rendered; empty if there are none
};

/// What `file` and the environment set; without `file`, what is set by the config that `hookline launch` has
/// resolved for this rank, or, outside of a run, what the environment alone sets. Throws ConfigError with
/// every problem.
ChosenHooks chosen_hooks(const std::optional<std::filesystem::path>& file);

}  // namespace hookline
