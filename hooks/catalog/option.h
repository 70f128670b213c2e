// Options as data: one row describes an option for the parser, the checks, the help and the documentation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hookline {

/// The type of an option's value.
enum class OptionType {
  boolean,  ///< bool
  integer,  ///< std::int64_t
  number,   ///< double
  text,     ///< std::string
  texts     ///< std::vector<std::string>
};

/// The value of an option. An integer given for a `number` option is stored as a double.
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// Values by option name. A hook's constructor gets all of its options, checked and with defaults filled in.
using OptionMap = std::map<std::string, OptionValue>;

/// One option: its name, type, default, and the values that it accepts.
struct OptionRow {
  std::string name;                       ///< The key in the config.
  OptionType type = OptionType::integer;  ///< The type of the value.
  OptionValue default_value;           ///< The value if the config sets none; of the row's type, or or_word.
  std::string help;                    ///< One sentence for the help and the documentation.
  std::string unit;                    ///< "steps", "MB", "seconds"; empty if there is none.
  std::optional<double> at_least;      ///< Smallest integer or number; none: no limit.
  std::optional<double> at_most;       ///< Largest integer or number; none: no limit.
  std::vector<std::string> allowed;    ///< The strings that text, or each of texts, may be; empty: any.
  std::optional<std::string> or_word;  ///< A string that is accepted as well, such as "auto".
  bool or_integer = false;             ///< Text may be given as an integer, and is stored as its digits.
};

/// The type in words: "an integer", "true or false", …
std::string type_name(OptionType type);

/// The value as TOML writes it: 2, true, 0.5, "text", ["text", "text"].
std::string to_text(const OptionValue& value);

/// What the row accepts, in words: "an integer, at least 1" or "one of \"no\", \"fp16\"".
std::string allowed_text(const OptionRow& row);

/// Checks `value` against the row. Returns it in the row's type (an integer becomes a double in a `number`
/// row); if the row does not accept it, returns none and sets `problem` to a text such as "must be an
/// integer, at least 1".
std::optional<OptionValue> check_value(const OptionRow& row, const OptionValue& value, std::string& problem);

}  // namespace hookline
