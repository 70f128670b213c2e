// Foreign text on a terminal: of ranks, files, hosts and command lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hookline {

/// `text` as one line that is safe to print on a terminal. Control characters (C1 included), line separators
/// and bidirectional marks become escapes such as "\n", "\x1b" or "\u202e"; invalid UTF-8 bytes become
/// "\xff".
std::string printable(std::string_view text);

/// The same of several lines: newlines and tabs stay.
std::string printable_lines(std::string_view text);

/// The length of the UTF-8 sequence at the start of `text`, which is not empty; 0 if there is none.
std::size_t utf8_sequence_length(std::string_view text);

}  // namespace hookline
