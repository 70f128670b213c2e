// The programs that this command starts itself.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/launch/catalog_of.h"
#include "launcher/rank/program.h"

namespace hookline {

/// The path of `name` beside the launcher, as built or installed, whether the file exists or not.
std::filesystem::path libexec_program(const std::string& name);

/// The hooks that this program knows; hookline's own if the program is missing.
CatalogOf catalog_of_libexec(const std::string& name);

/// The program `name`, to be run on ranks. Throws ProgramError if it is missing; `does` then says what it is
/// for: "replays on each rank".
Program libexec_rank(const std::string& name, const std::string& does);

}  // namespace hookline
