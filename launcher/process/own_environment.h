// The launcher's own environment, for the processes that it starts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// The process's environment as a list.
std::vector<std::string> own_environment();
/// The same without the variable `name`.
std::vector<std::string> own_environment_without(std::string_view name);

}  // namespace hookline
