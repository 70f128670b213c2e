// A TOML text as a tree of values that know their places.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/toml/diagnostic.h"
#include "config/toml/source_text.h"
#include "hooks/catalog/option.h"

namespace hookline {

struct TomlNode {
  enum class Kind { scalar, table, array, date };  // a list of texts is a scalar: one value of an option

  Kind kind = Kind::table;
  OptionValue value;                                       // of a scalar or list
  std::vector<std::pair<std::string, TomlNode>> children;  // of a table, in the order of the text
  std::vector<TomlNode> elements;                          // of an array or list
  Span key;                                                // the last name of the key
  Span place;                                              // the value
};

struct TomlDocument {
  /// What could be read. A table that is given twice, which is an error, gives a second root.
  std::vector<TomlNode> roots;
  std::vector<Diagnostic> problems;
};

/// Parses `source`. A statement with a syntax error is reported and left out, so that one reading finds the
/// problems of the whole file. Never throws for a bad text.
TomlDocument parse_toml(const SourceText& source);

}  // namespace hookline
