// An array job of Slurm's: many elements of one script, each of which runs by itself.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "launcher/schedulers/slurm_job.h"

namespace hookline {

/// One element, as Slurm's queue has it.
struct ArrayElement {
  std::string state;   // "PENDING", "RUNNING", …
  std::string reason;  // why it is pending; "None"
};

/// What the queue has of an array job: its number, empty if there is none, and its elements by theirs. Slurm forgets those
/// that have ended after a while, and those at once that were cancelled before they ran.
struct ArrayQueue {
  std::string job;
  std::map<int, ArrayElement> elements;
};

/// Of the job that `script` was submitted as; `job`: its number, if it is known. Throws SlurmError if the queue can't be asked,
/// and Interrupted.
ArrayQueue array_queue(const std::filesystem::path& script, const std::string& job, Signals& signals);

}  // namespace hookline
