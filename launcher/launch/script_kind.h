// What a command line says about the program: whether it is a script, and whether Python runs it.
#pragma once

#include <string>

#include "launcher/rank/program.h"

namespace hookline {

/// "a script", or "an interpreter" that is to run one: neither contains hookline's library. Empty for other
/// programs.
std::string script_kind(const Program& program);

/// Is the program Python, or a script whose first line names Python, or another program, not built with
/// hookline, among whose arguments is a Python, a script of Python's, or a shell's `-c` with either (numactl,
/// uv, bash)?
bool runs_python(const Program& program);

}  // namespace hookline
