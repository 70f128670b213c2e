// The libtorch that hookline's own programs in libexec load.
#pragma once

#include <filesystem>

namespace hookline {

/// The folder with the libraries of the libtorch that $HOOKLINE_TORCH names, for `program`, which is in
/// libexec. As for building hookline, the variable names a libtorch folder, the `torch` folder of a Python, a
/// Python environment or its site-packages. Empty if the variable is not set: the program then loads the
/// libtorch that it was installed for. Throws ProgramError if the variable names no libtorch, or one of
/// another version than the program was built with.
std::filesystem::path torch_libraries_for(const std::filesystem::path& program);

}  // namespace hookline
