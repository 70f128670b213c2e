// hookline config set: sets values in a file, and keeps its comments and order.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "base/log.h"
#include "checkpoint/replace_durably.h"
#include "config/print.h"
#include "config/resolve.h"
#include "config/schema/schema.h"
#include "config/sources/file_keys.h"
#include "config/toml/edit.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/config/file_key.h"
#include "launcher/cli/verbs/config/read_or_report.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

/// `typed` as a TOML value of the key's type; nothing, with a logged reason, if it is not one. Options of a
/// hook are those of the hook that the file chooses.
std::optional<std::string> toml_value(const FileKey& key, const std::string& typed, Sources sources,
                                      const Catalog& catalog) {
  sources.overrides = {{key.key, typed, "config set " + key.key}};
  Resolution resolution = resolve(sources, catalog);
  std::string report;
  for (const Diagnostic& each : resolution.diagnostics)
    if (each.severity == Severity::error && each.source == sources.overrides[0].where) report += render(each);
  std::cerr << report << std::flush;
  if (!report.empty()) return std::nullopt;
  for (const ShownValue& value : shown_values(resolution.config))
    if (value.key() == key.key) return to_text(value.value);
  log::error(key.key + " is not an option of the hook that the file chooses");
  return std::nullopt;
}

}  // namespace

int config_set(const Arguments& arguments) {
  std::string program;
  bool unset = false;
  VerbParser parser("hookline config set FILE KEY VALUE [KEY VALUE]... | --unset FILE KEY...",
                    "Set values in a config file, or remove keys. Comments, order and spacing stay. A change "
                    "that would make the file invalid is not written.",
                    "hookline config set run.toml ddp.comm_hook fp16");
  parser.add_flag("--unset", unset, "Remove the keys, so that they have their defaults again");
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  const std::vector<std::string>& plain = parser.plain();
  if (plain.size() < (unset ? 2 : 3) || (!unset && plain.size() % 2 == 0))
    throw UsageError(unset ? "name the file and the keys to take out"
                           : "name the file, and each key with its value");

  const std::filesystem::path file = plain[0];
  const CatalogOf hooks = catalog_of_named(program);
  Sources sources;
  sources.file = file;
  hooks.apply_to(sources);
  std::string text;
  const bool is_new = !std::filesystem::exists(file);
  if (!is_new || unset) {
    const auto source = read_or_report(file);
    if (!source) return kBadInput;
    text = source->text();
  } else {
    text = std::string(kSchemaVersionKey) + " = " + std::to_string(kSchemaVersion) + "\n";
  }
  try {
    for (std::size_t i = 1; i < plain.size(); i += unset ? 1 : 2) {
      const FileKey key = file_key(plain[i], hooks.catalog);
      const SourceText source(file.string(), text);
      if (unset) {
        text = without_key(source, key.path);
        continue;
      }
      sources.file_text = text;
      sources.profile = key.profile;
      // The profile may not be there yet.
      if (key.profile && value_in(source, {kProfileTable, *key.profile}).empty()) sources.profile.reset();
      const auto value = toml_value(key, plain[i + 1], sources, hooks.catalog);
      if (!value) return kBadInput;
      text = with_key(source, key.path, *value);
    }
  } catch (const EditError& error) {
    log::error(error.what());
    return kBadInput;
  }
  sources.file_text = text;
  sources.profile.reset();
  const Resolution result = resolve(sources, hooks.catalog);
  if (!result.ok()) {
    std::cerr << result.report() << std::flush;
    log::error("'" + file.string() + "' was not changed: it would not be valid");
    return kBadInput;
  }
  replace_durably(file, text);
  if (is_new) log::info("'" + file.string() + "' did not exist, and is created");
  return kSuccess;
}

}  // namespace hookline
