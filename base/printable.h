// Foreign text on a terminal: of ranks, files, hosts and command lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hookline {

/// `text` in one line that steers no terminal and shows its characters in the order in which they are: control characters,
/// those of the C1 set, line separators and marks that turn the direction of writing become "\n", "\x1b" or "\u202e"; bytes
/// that are no UTF-8 become "\xff". The rest stays.
std::string printable(std::string_view text);

/// The same of several lines: newlines and tabs stay.
std::string printable_lines(std::string_view text);

/// The length of the UTF-8 sequence at the start of `text`, which is not empty; 0 if there is none.
std::size_t utf8_sequence_length(std::string_view text);

}  // namespace hookline
