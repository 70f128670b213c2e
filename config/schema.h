// Every key of a config, one row each: what the parser, validation, help and documentation know of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"
#include "hooks/option.h"

namespace hookline {

/// The table of the chosen hook's own options; its keys come from the catalog.
inline constexpr const char* kHookOptionTable = "ddp.comm_state_option";

/// What a text has to be beyond text.
struct TextForm {
  bool (*fits)(const std::string& text) = nullptr;  // null: any does
  std::string note;                                 // what it must be
};

struct KeyRow {
  std::string table;  // "ddp"
  OptionRow option;
  OptionValue (*get)(const RunConfig&);
  void (*set)(RunConfig&, const OptionValue&);  // with a value that check_value returned
  TextForm form = {};                           // of a text that may not be just any

  /// "ddp.comm_hook"
  std::string key() const { return table + "." + option.name; }
};

/// In the order in which they are printed: table by table.
const std::vector<KeyRow>& schema();

/// "launch", "ddp", "training", "logging".
std::vector<std::string> table_names();

/// What a table's keys are called; empty for a table that there is not.
std::vector<std::string> key_names(std::string_view table);

/// nullptr if there is none.
const KeyRow* find_key(std::string_view table, std::string_view name);

}  // namespace hookline
