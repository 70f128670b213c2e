// Settings that a launcher hands to a rank in environment variables.
#pragma once

#include <optional>
#include <string>

namespace hookline {

/// No run has more ranks.
inline constexpr int kMostRanks = 1 << 20;

/// The variable's text; nothing if it is unset or empty.
std::optional<std::string> environment_text(const char* name);

/// A whole number in [least, most]; `otherwise` if the variable is unset or empty. Throws Error naming the
/// variable if it holds anything else.
int environment_number(const char* name, int least, int most, int otherwise);

}  // namespace hookline
