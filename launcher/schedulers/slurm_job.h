// A job of Slurm's, from its start to its end.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hookline {

/// Slurm's commands are not there, or refuse; what() has what they say.
class SlurmError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

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

/// The address that Slurm has for the node that it calls `name`; empty if it does not say.
std::string node_address(const std::string& name);

/// Submits the script; the job's number. Throws SlurmError, LostAnswer among them.
std::string submit_job(const std::filesystem::path& script);

/// Is it a state in which a job, or an element of one, is over?
bool is_over(std::string_view state);

/// Writes what comes into the job's log to standard output until the job is over, through requeues too. Its exit code, 128 +
/// a signal's number if one ended it. Throws SlurmError.
int follow_job(const std::string& job, const std::filesystem::path& log);

}  // namespace hookline
