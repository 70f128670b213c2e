// Text measured and cut in a terminal's columns.
#pragma once

#include <cstddef>
#include <string>

namespace hookline {

/// The columns of a terminal; 80 if unknown.
int columns_of(int terminal);

/// The columns that UTF-8 text takes, one per character.
std::size_t width_of(const std::string& text);

/// Cuts UTF-8 text to at most `columns` characters. If `separator` separates parts, cuts between parts.
std::string cut_to_columns(const std::string& text, std::size_t columns, const std::string& separator);

}  // namespace hookline
