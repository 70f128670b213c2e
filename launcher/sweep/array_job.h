// An array job of Slurm's that runs trials of a sweep, each as an element, as the sweep's folder remembers it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/signals.h"
#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {

/// What is asked of Slurm for each element.
struct ArrayRequest {
  std::string name;  // of the job
  NodeResources needed;
  std::optional<std::int64_t> most_at_once;      // elements; none: as many as Slurm likes
  std::vector<std::string> scheduler_arguments;  // of sbatch
  std::string template_text;
  std::filesystem::path hookline;
};

/// A job, with what it has still to bring. It is remembered from before it is submitted until nothing is left, so that
/// whoever is killed in between finds it.
struct ArrayJob {
  std::string number;                   // Slurm's; empty: whether it was submitted is not known
  std::filesystem::path stem;           // of its files: STEM.json, STEM.sbatch, STEM.trials
  std::map<int, std::string> elements;  // ids of trials, by element

  std::filesystem::path script() const { return stem.string() + ".sbatch"; }
  std::filesystem::path log_of(int element) const;
};

/// Files of a job that is submitted now to run trials of the sweep in `folder`, without their suffix.
std::filesystem::path stem_now(const std::filesystem::path& folder);

/// The script for `count` trials. Throws TemplateError.
std::string array_script(const ArrayRequest& request, const std::filesystem::path& stem, std::size_t count);

/// Hands it over. The trials' plans must be written. Throws SlurmError, TemplateError, or Error if a file can't be written;
/// there is no such job then. Throws Interrupted too: the folder then remembers a job without a number, as the next command
/// has to find out whether Slurm took it.
ArrayJob submit_array(const ArrayRequest& request, const std::filesystem::path& folder,
                      const std::vector<std::string>& trials, Signals& signals);

/// Those that the folder of a sweep remembers, oldest first. Throws Error, naming the file.
std::vector<ArrayJob> kept_jobs(const std::filesystem::path& folder);

/// Remembers it as it is now, which is not at all if nothing of it is left. Throws Error.
void keep(const ArrayJob& job);

}  // namespace hookline
