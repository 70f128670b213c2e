// A Slurm job, from its start to its end.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "launcher/schedulers/slurm_command.h"

namespace hookline {

/// Slurm's commands are not there.
class NoSlurm : public SlurmError {
 public:
  using SlurmError::SlurmError;
};

/// The answer to a submission was lost, so it is unknown whether the job is queued.
class LostAnswer : public SlurmError {
 public:
  using SlurmError::SlurmError;
};

/// The address that Slurm has for the node that it calls `name`; empty if it does not say. Throws as
/// answer_of does.
std::string node_address(const std::string& name, Signals& signals);

/// Submits the script and returns the job's number. Throws SlurmError, including LostAnswer, and Interrupted,
/// after which it is also unknown whether the job is queued.
std::string submit_job(const std::filesystem::path& script, Signals& signals);

/// Is a job, or an element of one, over when it is in this state?
bool is_over(std::string_view state);

/// Copies the job's log to standard output until the job is over, even if it is requeued. Returns its exit
/// code, or 128 + the signal that ended it. Throws SlurmError, and Interrupted, after which the job still
/// runs.
int follow_job(const std::string& job, const std::filesystem::path& log, Signals& signals);

}  // namespace hookline
