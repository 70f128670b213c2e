#include "launcher/launch/unread_config.h"

#include <algorithm>
#include <map>
#include <system_error>

#include "base/folder_access.h"
#include "base/log.h"
#include "base/text/printable.h"
#include "config/print.h"
#include "config/run_files.h"
#include "config/schema/origin_text.h"
#include "hooks/catalog/hook_rows.h"
#include "launcher/launch/script_kind.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

bool is_for_ranks(const ShownValue& value) {
  if (value.table == "logging") return value.name == "trackers" || value.name.starts_with("mlflow_");
  return value.table == "ddp" || value.table == "fsdp" || value.table == "training";
}

std::string listed(const std::vector<RankSetting>& settings) {
  std::string text;
  for (const RankSetting& each : settings) text += "\n  " + each.text;
  return text;
}

}  // namespace

std::vector<RankSetting> rank_settings(const RunConfig& config) {
  std::map<std::string, std::string> defaults;
  for (const ShownValue& value : shown_values(RunConfig()))
    defaults.emplace(value.key(), to_text(value.value));
  std::vector<RankSetting> settings;
  for (const ShownValue& value : shown_values(config)) {
    const std::string text = to_text(value.value);
    const auto by_default = defaults.find(value.key());  // none for options of a hook
    if (!is_for_ranks(value) || by_default == defaults.end() || by_default->second == text) continue;
    settings.push_back({value.key(), value.key() + " = " + text + " (" + origin_text(value.origin) + ")"});
  }
  return settings;
}

void warn_of_script(const RunConfig& config, const Program& program) {
  const std::vector<RankSetting> settings = rank_settings(config);
  const std::string kind = settings.empty() ? "" : script_kind(program);
  if (kind.empty()) return;
  log::warning(
      "'" + printable(program.file.string()) + "' is " + kind +
      ", so these settings have no effect unless it uses hookline's library or starts a program that "
      "does:" +
      listed(settings));
}

bool was_config_read(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kConfigReadFile, error);
}

void warn_of_unread_config(const RunConfig& config, const Program& program, const fs::path& folder,
                           int exit_code) {
  const std::vector<RankSetting> settings = rank_settings(config);
  if (settings.empty() || was_config_read(folder)) return;
  const bool may_be_of_hookline = may_not_read(program.file) || !read_build(program.file).empty();
  if (exit_code != kSuccess && may_be_of_hookline) return;
  log::warning(
      "no rank has read the config, so these settings had no effect (hookline's library reads it in "
      "Accelerator::from_env and, in Python, in hookline.apply):" +
      listed(settings));
}

}  // namespace hookline
