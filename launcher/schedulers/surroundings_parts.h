// What readers of a scheduler's variables share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/schedulers/surroundings.h"

namespace hookline {

/// A number that is not negative; nothing if the text is none.
std::optional<long long> number_in(const std::optional<std::string>& text);

/// The number from `least` to `most` that a variable holds. Nothing if the variable is not set. A number out
/// of range becomes a `problem` of `place`, and any other text adds to its `unsaid`.
std::optional<int> number_of(const HostFacts& here, const char* name, int least, int most,
                             Surroundings& place);
std::optional<int> node_count_of(const HostFacts& here, const char* name, Surroundings& place);
std::optional<int> node_rank_of(const HostFacts& here, const char* name, Surroundings& place);

/// Adds a sentence to `unsaid`.
void leave_unsaid(Surroundings& place, const std::string& sentence);

/// A port that jobs with other names are unlikely to get.
int port_of_job(const std::string& job);

/// The hosts of a job, each once, in the order in which its variables or its file name them.
struct JobHosts {
  std::vector<std::string> names;
  std::string from;      // the variable that they were read from
  std::string unusable;  // "PBS_NODEFILE=/f can't be read: …" of the file; empty if it names hosts
};

/// The hosts in the file that a variable names; nothing if it is not set.
std::optional<JobHosts> hosts_in_file(const HostFacts& here, const char* variable);

/// The hosts of the batch job that this process runs in, whichever system it is; none outside of all batch
/// systems.
JobHosts hosts_of_job(const HostFacts& here);

/// A name that distinguishes this job from others; empty outside of all batch systems.
std::string name_of_job(const Lookup& variable);

// Each returns nothing if its scheduler is not present, and an unknown place if the variables can't be used.
std::optional<Surroundings> jsrun_surroundings(const HostFacts& here);
std::optional<Surroundings> open_mpi_surroundings(const HostFacts& here);
std::optional<Surroundings> pmi_surroundings(const HostFacts& here);   // MPICH, Intel MPI, MVAPICH, Cray PALS
std::optional<Surroundings> pmix_surroundings(const HostFacts& here);  // no more than a rank
std::optional<Surroundings> slurm_surroundings(const HostFacts& here);
std::optional<Surroundings> pbs_surroundings(const HostFacts& here);
std::optional<Surroundings> lsf_surroundings(const HostFacts& here);
std::optional<Surroundings> grid_engine_surroundings(const HostFacts& here);

}  // namespace hookline
