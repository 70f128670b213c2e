// The sweep folder's record of a Slurm array job, each of whose elements runs one trial.
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

/// What is asked of Slurm for an array job; `needed` is for each element.
struct ArrayRequest {
  std::string name;  // of the job
  NodeResources needed;
  std::optional<std::int64_t> most_at_once;      // elements; none: as many as Slurm likes
  std::vector<std::string> scheduler_arguments;  // of sbatch
  std::string template_text;
  std::filesystem::path hookline;
};

/// A job, and its trials whose results are still to come. It is kept on disk from before its submission until
/// none of its trials can still deliver a result, so that the next command finds it even if this one is
/// killed.
struct ArrayJob {
  std::string number;                   // Slurm's; empty: whether it was submitted is not known
  std::filesystem::path stem;           // of its files: STEM.json, STEM.sbatch, STEM.trials
  std::map<int, std::string> elements;  // ids of trials, by element

  std::filesystem::path script() const { return stem.string() + ".sbatch"; }
  std::filesystem::path log_of(int element) const;
};

/// The path, without a suffix, of the files of a job that is submitted now to run trials of the sweep in
/// `folder`.
std::filesystem::path stem_now(const std::filesystem::path& folder);

/// The script for `count` trials. Throws TemplateError.
std::string array_script(const ArrayRequest& request, const std::filesystem::path& stem, std::size_t count);

/// Submits a job for `trials`, whose plans must be written already. Throws TemplateError, SlurmError, or
/// Error if a file can't be written; and Interrupted if a signal arrives. After Interrupted and LostAnswer it
/// is unknown whether Slurm accepted the job: the folder keeps a job without a number, and the next command
/// finds out.
ArrayJob submit_array(const ArrayRequest& request, const std::filesystem::path& folder,
                      const std::vector<std::string>& trials, Signals& signals);

/// The jobs that the sweep's folder keeps, oldest first. Throws Error, naming the file.
std::vector<ArrayJob> kept_jobs(const std::filesystem::path& folder);

/// Writes the job to its file in the sweep's folder, or removes the file if no elements are left. Throws
/// Error.
void keep(const ArrayJob& job);

}  // namespace hookline
