// The programs that this command starts itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/launch/catalog_of.h"
#include "launcher/rank/program.h"

namespace hookline {

/// The folder of the CMake package that is installed with the launcher, whether it exists or not.
std::filesystem::path cmake_folder();

/// The path of `name` beside the launcher, as built or installed, whether the file exists or not.
std::filesystem::path libexec_program(const std::string& name);

/// The hooks that this program knows; hookline's own if the program is missing.
CatalogOf catalog_of_libexec(const std::string& name);

/// The program `name`, which links libtorch. Throws ProgramError if it is missing, and as
/// torch_libraries_for does. `does` says what the program is for: "replays on each rank".
Program libexec_rank(const std::string& name, const std::string& does);

/// The command line that starts `program` with `arguments`, and its libraries.
std::vector<std::string> command_of(const Program& program, const std::vector<std::string>& arguments);

}  // namespace hookline
