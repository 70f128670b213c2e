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

/// Creates an empty part_of(checkpoint) and the folders above it, removing what an unfinished save left.
/// Throws Error.
void begin_part(const std::filesystem::path& checkpoint);

/// Writes the manifest into the part folder, atomically renames the part to the checkpoint's name, and then
/// removes an older checkpoint of that name, so that one of the two always exists. Throws Error and leaves
/// the part in place.
void commit_part(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Where the checkpoint is: the folder itself, or the older checkpoint beside it, if the file system can't
/// exchange folders and a crash came between the two renames.
std::filesystem::path locate(const std::filesystem::path& checkpoint);

/// "step_00000100", in the folder of a run's checkpoints.
std::string checkpoint_name(std::int64_t step);

struct FoundCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// The checkpoints in `folder` by their names, newest first, good or not; none if there is no such folder.
/// Throws Error.
std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& folder);

/// Throws Error if `folder` holds any checkpoints, which would mix with those of the new run.
void expect_no_checkpoints(const std::filesystem::path& folder);

/// What is wrong with the checkpoint's files for which `wanted(name)` is true: one sentence for each bad
/// file.
std::vector<std::string> problems_of(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                     const std::function<bool(const std::string& name)>& wanted);

/// Throws Error if `folder` holds checkpoints beyond `step`, from which the run resumes: a restart would
/// resume from those instead.
void expect_none_beyond(const std::filesystem::path& folder, std::int64_t step);

/// Removes unfinished parts, and all checkpoints up to `step`, the one just saved, except the `keep` newest
/// of them. Checkpoints beyond `step` may belong to another run, and stay. Throws Error.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t keep, std::int64_t step);

}  // namespace hookline
