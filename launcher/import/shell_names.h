// What a shell takes as the name of a variable.
#pragma once

#include <cctype>

namespace hookline {

inline bool begins_shell_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
inline bool is_of_shell_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace hookline
