// A job of Slurm's, from its start to its end.
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

/// A job may be queued or not: the answer to its submission was lost.
class LostAnswer : public SlurmError {
 public:
  using SlurmError::SlurmError;
};

/// The address that Slurm has for the node that it calls `name`; empty if it does not say. Throws as
/// answer_of does.
std::string node_address(const std::string& name, Signals& signals);

/// Submits the script; the job's number. Throws SlurmError, LostAnswer among them, and Interrupted: whether the job is queued
/// is not known then either.
std::string submit_job(const std::filesystem::path& script, Signals& signals);

/// Is it a state in which a job, or an element of one, is over?
bool is_over(std::string_view state);

/// Writes what comes into the job's log to standard output until the job is over, through requeues too. Its exit code, 128 +
/// a signal's number if one ended it. Throws SlurmError, and Interrupted, after which the job still runs.
int follow_job(const std::string& job, const std::filesystem::path& log, Signals& signals);

}  // namespace hookline
