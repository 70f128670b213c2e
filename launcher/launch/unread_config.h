// Reports settings that have no effect in a run: only hookline's library, inside a rank, reads them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/schema/run_config.h"
#include "launcher/rank/program.h"

namespace hookline {

/// A setting that only the library in a rank can act on.
struct RankSetting {
  std::string key;   // "ddp.comm_hook"
  std::string text;  // "ddp.comm_hook = "power_sgd" (from file run.toml:2:1)"
};

/// The settings of `config` that are for ranks and are not the defaults.
std::vector<RankSetting> rank_settings(const RunConfig& config);

/// Before a run: warns if the program is a script and `config` has settings for ranks.
void warn_of_script(const RunConfig& config, const Program& program);

/// Has hookline's library, in a rank of the run in `folder`, read the config?
bool was_config_read(const std::filesystem::path& folder);

/// After a run that ended with `exit_code`: warns of settings for ranks if no rank has read them. Does not
/// warn if a program that has the library failed, since it may have failed before it read them.
void warn_of_unread_config(const RunConfig& config, const Program& program,
                           const std::filesystem::path& folder, int exit_code);

}  // namespace hookline
