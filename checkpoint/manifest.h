// The table of contents of a checkpoint: what it was saved by, and what each of its files must hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/durable_file.h"

namespace hookline {

struct Manifest {
  std::int64_t step = 0;  // optimizer steps taken
  int world_size = 1;
  std::string hook;      // of the first model, as it describes itself
  std::string saved_at;  // UTC: "2026-01-31T12:00:00Z"
  std::string version;   // of hookline
  std::vector<FileRecord> files;
};

inline constexpr const char* kManifestName = "manifest.json";

/// With a checksum of itself.
std::string manifest_text(const Manifest& manifest);

/// Of the checkpoint in `folder`. Throws Error, which names the file, if it is missing, damaged, or of a
/// format that this version does not know.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace hookline
