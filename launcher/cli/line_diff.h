// What changes between two texts, line by line.
#pragma once

#include <string>
#include <string_view>

namespace hookline {

/// A unified diff with three lines around each change, as `diff -u` writes it, of `file` before and after;
/// empty if the texts are equal.
std::string line_diff(std::string_view before, std::string_view after, const std::string& file);

}  // namespace hookline
