// The programs that the command starts by itself.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// Where `name` lies, beside the launcher as built or installed; whether it is there or not.
std::filesystem::path libexec_program(const std::string& name);

}  // namespace hookline
