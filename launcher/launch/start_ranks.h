// Starts the ranks of a checked run, and waits until they have ended.
#pragma once

#include "config/schema/run_config.h"
#include "launcher/rank/program.h"

namespace hookline {

/// Makes the run folder, starts `program` on as many ranks as `config` says, and returns the exit code of the
/// run. Logs what goes wrong. Returns once, in the process that called it.
int start_ranks(const RunConfig& config, const Program& program);

/// Prints what start_ranks would do, after all checks that start nothing. Returns an exit code.
int show_plan(const RunConfig& config, const Program& program);

}  // namespace hookline
