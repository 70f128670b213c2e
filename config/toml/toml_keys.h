// Where the keys of a TOML text are: the parser knows the places of values only.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/toml/source_text.h"

namespace hookline {

/// A key's names from the outermost table on.
using KeyPath = std::vector<std::string>;

struct KeyPlace {
  Span key;    // the last name alone
  Span value;  // for a table with a header: the same as `key`
};

/// Every key and table of `text`, at its first mention; those inside arrays are left out. Meant for texts
/// that the parser accepts; others give some subset of their keys.
std::map<KeyPath, KeyPlace> find_keys(std::string_view text);

/// The same, and what else one pass over the text shows.
struct ScannedKeys {
  std::map<KeyPath, KeyPlace> places;
  /// Where a table's header follows something else on its line, as in `a = 1 [b]`: not TOML, but the parser
  /// accepts it.
  std::vector<std::size_t> misplaced_headers;
};
ScannedKeys scan_keys(std::string_view text);

/// The most levels of nested values, or dots in a dotted key, that are accepted: much deeper ones overflow
/// the parser's stack.
inline constexpr std::size_t kDeepestNesting = 64;

/// The first byte at which `text` nests deeper than kDeepestNesting. May count a little too much (brackets
/// inside strings of a text that is not valid), never too little.
std::optional<std::size_t> find_deep_nesting(std::string_view text);

}  // namespace hookline
