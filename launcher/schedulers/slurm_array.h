// A Slurm array job: many elements of one script, each of which runs by itself.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "launcher/schedulers/slurm_job.h"

namespace hookline {

/// One element in Slurm's queue.
struct ArrayElement {
  std::string state;   // "PENDING", "RUNNING", …
  std::string reason;  // why it is pending, or "None"
};

/// An array job in the queue: its number, empty if it is not there, and its elements by their numbers. Slurm
/// forgets elements some time after they have ended, and at once if they were cancelled before they ran.
struct ArrayQueue {
  std::string job;
  std::map<int, ArrayElement> elements;
};

/// The queue's entry for the job that `script` was submitted as. `job`: the job's number, if it is known.
/// Throws SlurmError if the queue can't be read, and Interrupted.
ArrayQueue array_queue(const std::filesystem::path& script, const std::string& job, Signals& signals);

}  // namespace hookline
