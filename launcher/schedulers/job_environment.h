// Which variables of the shell that submits a job reach it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/rank/rank_environment.h"

namespace hookline {

/// Those of this process that decide what a job's launch does: HOOKLINE_*, OMP_NUM_THREADS and SBATCH_EXPORT.
Variables variables_for_jobs();

std::optional<std::string> value_of(const Variables& variables, std::string_view name);

/// What sbatch exports of `here`. `arguments`: the user's options of sbatch, over which SBATCH_EXPORT takes precedence, as over all
/// options in a script.
Variables exported_by_sbatch(const Variables& here, const std::vector<std::string>& arguments);

/// What mpirun passes on of `here` to every node: Open MPI those that -x names, MPICH those of -genvlist, -genv and -genvall.
Variables passed_by_mpirun(const Variables& here, const std::vector<std::string>& arguments);

/// The names of those of `here` that set keys of a config, and that `passed` lacks.
std::vector<std::string> lost_variables(const Variables& here, const Variables& passed);

}  // namespace hookline
