// Checkpoints as folders: complete or absent, newest first, and what is wrong with one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace hookline {

/// Where a checkpoint is written before it takes its name: "DIR.part".
std::filesystem::path part_of(const std::filesystem::path& checkpoint);

/// An empty part_of(checkpoint), with the folders above it; what a save that did not end left there goes. Throws Error.
void begin_part(const std::filesystem::path& checkpoint);

/// Writes the manifest into the part, which then takes the checkpoint's name in one step; an older checkpoint of that
/// name is removed after it. At every moment, one of the two is there. Throws Error; the part is left then.
void commit_part(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Where the checkpoint is: the folder itself, or, if a crash came between two renames on a file system that can't exchange
/// two folders, the older one beside it.
std::filesystem::path locate(const std::filesystem::path& checkpoint);

/// "step_00000100", in the folder of a run's checkpoints.
std::string checkpoint_name(std::int64_t step);

struct FoundCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// The checkpoints in `folder` by their names, newest first, good or not; none if there is no such folder. Throws Error.
std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& folder);

/// Throws Error if there are any: those of two runs would be taken for one's.
void expect_no_checkpoints(const std::filesystem::path& folder);

/// Which of a checkpoint's files are wrong, one sentence each; empty if all that `wanted` names hold what they did.
std::vector<std::string> problems_of(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                     const std::function<bool(const std::string& name)>& wanted);

/// Throws Error if there are any beyond `step`, from which a run goes on: a restart would take the newest for its own.
void expect_none_beyond(const std::filesystem::path& folder, std::int64_t step);

/// Removes all but the `keep` newest checkpoints in `folder` up to that of `step`, which was just saved, and parts that were
/// never finished. What is beyond is of no use, or not this run's, and stays. Throws Error.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t keep, std::int64_t step);

}  // namespace hookline
