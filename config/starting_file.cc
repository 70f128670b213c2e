#include "config/starting_file.h"

#include "config/print.h"
#include "config/schema/schema.h"
#include "config/sources/file_keys.h"

namespace hookline {
namespace {

constexpr const char* kHead =
    "# A config of hookline. Keys that are commented out have the values that are shown.\n"
    "#   hookline launch --config FILE ./train\n"
    "#   hookline config validate FILE\n";

std::string version_line() {
  return std::string(kSchemaVersionKey) + " = " + std::to_string(kSchemaVersion) + "\n";
}

std::string shown(const OptionRow& row) {
  return "# " + row.help + "\n#   " + allowed_text(row) + (row.unit.empty() ? "" : ", in " + row.unit) +
         "\n#" + row.name + " = " + to_text(row.default_value) + "\n";
}

}  // namespace

std::string starting_file(const Catalog& catalog) {
  std::string text = kHead;
  text += "\n" + version_line();
  for (const std::string& table : table_names()) {
    text += "\n[" + table + "]\n";
    for (const KeyRow& row : schema())
      if (row.table == table) text += shown(row.option);
    if (table != "ddp") continue;
    text += "\n[" + std::string(kHookOptionTable) + "]\n";
    for (const HookRow& hook : catalog.hooks()) {
      if (hook.options.empty()) continue;
      text += "# --- " + hook.name + ": " + hook.summary + "\n";
      for (const OptionRow& option : hook.options) text += shown(option);
    }
  }
  return text;
}

std::string chosen_file(const RunConfig& config) {
  std::vector<ShownValue> values = shown_values(config);
  std::erase_if(values, [](const ShownValue& value) {
    const KeyRow* const row = find_key(value.table, value.name);
    return row ? value.value == row->option.default_value : value.origin.kind == OriginKind::default_value;
  });
  const std::string tables = tables_of(values, [](const ShownValue& value, const std::string& assignment) {
    const KeyRow* const row = find_key(value.table, value.name);
    return (row ? "# " + row->option.help + "\n" : "") + assignment;
  });
  return "# A config of hookline; all other keys have their defaults: hookline config default\n" +
         version_line() + (tables.empty() ? "" : "\n") + tables;
}

}  // namespace hookline
