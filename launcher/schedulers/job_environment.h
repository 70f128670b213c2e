// Decides which variables of the submitting shell reach a job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/rank/rank_environment.h"

namespace hookline {

/// This process's variables that affect a job's launch: HOOKLINE_*, OMP_NUM_THREADS and SBATCH_EXPORT.
Variables variables_for_jobs();

std::optional<std::string> value_of(const Variables& variables, std::string_view name);

/// The variables of `here` that sbatch exports. `arguments`: the user's options of sbatch. SBATCH_EXPORT
/// takes precedence over them, as over all options in a script.
Variables exported_by_sbatch(const Variables& here, const std::vector<std::string>& arguments);

/// The variables of `here` that mpirun passes on to every node: with Open MPI those that -x names, with MPICH
/// those of -genvlist, -genv and -genvall.
Variables passed_by_mpirun(const Variables& here, const std::vector<std::string>& arguments);

/// The names of variables in `here` that set keys of a config and are not in `passed`.
std::vector<std::string> lost_variables(const Variables& here, const Variables& passed);

}  // namespace hookline
