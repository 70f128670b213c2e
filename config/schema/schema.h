// Every key of a config, one row each: what the parser, validation, help and documentation know of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema/detected.h"
#include "config/schema/run_config.h"
#include "hooks/catalog/catalog.h"
#include "hooks/catalog/option.h"

namespace hookline {

/// The table of the chosen hook's own options; its keys come from the catalog.
inline constexpr const char* kHookOptionTable = "ddp.comm_state_option";

/// The table of what comm_hook = "auto" may choose.
inline constexpr const char* kAutoHookTable = "ddp.auto";

/// The texts for which one may write true and false.
struct BooleanWords {
  std::string if_true, if_false;
};

/// What a text must look like.
struct TextForm {
  bool (*fits)(const std::string& text) = nullptr;  // null: any does
  std::string note;                                 // what it must be
  std::optional<BooleanWords> booleans = {};        // accepted beside text
};

struct KeyRow {
  std::string table;  // "ddp"
  OptionRow option;
  OptionValue (*get)(const RunConfig&);
  void (*set)(RunConfig&, const OptionValue&);  // with a value that check_value returned
  TextForm form = {};                           // for a text: which ones are accepted
  /// The key's position among the questions that the wizard asks every user; 0: the wizard asks it only if
  /// the user chooses to go through the key's table.
  int asked = 0;
  /// Does the key apply to this machine, given the earlier answers? Null: always.
  bool (*applies)(const RunConfig& so_far, const Detected& here) = nullptr;

  /// "ddp.comm_hook"
  std::string key() const { return table + "." + option.name; }
};

/// In the order in which they are printed: table by table.
const std::vector<KeyRow>& schema();

/// "launch", "ddp", "ddp.auto", "training", …
std::vector<std::string> table_names();

/// What a table's keys are called; empty for a table that does not exist.
std::vector<std::string> key_names(std::string_view table);

/// "ddp.comm_hook" for every key, and "ddp.comm_state_option.NAME" for every option of every hook, each once.
std::vector<std::string> all_keys(const Catalog& catalog);

/// nullptr if there is none.
const KeyRow* find_key(std::string_view table, std::string_view name);
const KeyRow* find_key(std::string_view key);  // "ddp.comm_hook"

}  // namespace hookline
