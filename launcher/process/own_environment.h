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
/// The same with the variable `name` set to `value`.
std::vector<std::string> own_environment_with(const std::string& name, const std::string& value);

/// The variable that names the folders in which the dynamic linker looks for shared libraries first.
inline constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";
/// The value of kLibraryPath for a process that is to look in `folders`, separated by colons, before where
/// this process looks.
std::string library_path(const std::string& folders);

}  // namespace hookline
