// Says in hookline's words what toml11 finds wrong with a file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "config/toml/diagnostic.h"
#include "config/toml/source_text.h"

namespace hookline {

/// An error as toml11 reports it.
struct ParserError {
  std::string title;                      // "toml::parse_value: unknown value appeared"
  std::string explanation;                // of its place
  std::optional<Span> place;              // none: the whole file
  std::optional<std::size_t> first_line;  // of a key or table that is given twice
};

Diagnostic diagnostic_of(const ParserError& error, const SourceText& source);

/// True for the line of a table's header, "[ddp]".
bool is_header(const SourceText& source, Span line);

}  // namespace hookline
