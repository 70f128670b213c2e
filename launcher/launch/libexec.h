// The programs that the command starts by itself.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/launch/catalog_of.h"
#include "launcher/rank/program.h"

namespace hookline {

/// Where `name` lies, beside the launcher as built or installed; whether it is there or not.
std::filesystem::path libexec_program(const std::string& name);

/// The hooks that it knows; hookline's own if it is not there.
CatalogOf catalog_of_libexec(const std::string& name);

/// The same as a program for ranks. Throws ProgramError if it is not there; `does` says what it is for: "replays on each
/// rank".
Program libexec_rank(const std::string& name, const std::string& does);

}  // namespace hookline
