// hookline config update: brings a file of an older schema version to the current one.
#include <iostream>

#include "base/log.h"
#include "checkpoint/replace_durably.h"
#include "config/sources/file_keys.h"
#include "config/sources/migrate.h"
#include "config/toml/edit.h"
#include "launcher/cli/line_diff.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/config/read_or_report.h"
#include "launcher/process/exit_code.h"

namespace hookline {

int config_update(const Arguments& arguments) {
  bool dry_run = false;
  VerbParser parser(
      "hookline config update FILE [flags]",
      "Convert a config file of an older schema version to the current one, and show what changes. Comments "
      "and order stay.",
      "hookline config update run.toml --dry-run");
  parser.add_flag("--dry-run", dry_run, "Show what would change, and change nothing");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("config file", 1, 1);

  const std::string& file = parser.plain().front();
  const auto source = read_or_report(file);
  if (!source) return kBadInput;
  const SourceText& text = *source;
  try {
    const Migrated migrated = migrate(text);
    if (migrated.text == text.text()) {
      log::info(file + " is of schema version " + std::to_string(kSchemaVersion) + " already");
      return kSuccess;
    }
    std::cout << line_diff(text.text(), migrated.text, file) << std::flush;
    for (const std::string& change : migrated.changes) log::info(change);
    if (dry_run) return kSuccess;
    replace_durably(file, migrated.text);
  } catch (const EditError& error) {
    log::error(error.what());
    return kBadInput;
  }
  log::info("updated " + file + " to schema version " + std::to_string(kSchemaVersion));
  return kSuccess;
}

}  // namespace hookline
