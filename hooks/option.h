// Options as data: one row describes a setting to the parser, the validator, help and documentation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hookline {

enum class OptionType { boolean, integer, number, text, texts };

/// The value of an option. An integer given for a `number` option is stored as double.
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// Values by option name; complete (defaults filled in) once validated.
using OptionMap = std::map<std::string, OptionValue>;

/// One setting. `allowed` restricts text; `at_least` and `at_most` restrict a number (both inclusive).
struct OptionRow {
  std::string name;
  OptionType type = OptionType::integer;
  OptionValue default_value;
  std::string help;
  std::string unit;                    // "steps", "MB", "seconds"; empty when there is none
  std::optional<double> at_least;      // inclusive
  std::optional<double> at_most;       // inclusive
  std::vector<std::string> allowed;    // for text, or each of texts; empty: any
  std::optional<std::string> or_word;  // a word accepted beside a number, such as "auto"
  bool or_integer = false;             // for text: an integer stands for its digits
};

/// "an integer", "true or false", …
std::string type_name(OptionType type);

/// The value as TOML would write it: 2, true, 0.5, "text", ["text", "text"].
std::string to_text(const OptionValue& value);

/// What the row accepts, in words: "an integer, at least 1" or "one of \"no\", \"fp16\"".
std::string allowed_text(const OptionRow& row);

/// Checks `value` against the row. Returns the value in the row's own type (an integer becomes a double for a
/// `number` row), or in `problem` a sentence such as "must be an integer, at least 1".
std::optional<OptionValue> check_value(const OptionRow& row, const OptionValue& value, std::string& problem);

}  // namespace hookline
