// A checkpoint that all ranks have found good, to be read from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/manifest.h"
#include "parallel/tensors/saved_part.h"
#include "parallel/world/world.h"

namespace hookline {

/// Each rank checks and reads what the ranks share and what is its own. Not synchronised.
class OpenCheckpoint {
 public:
  /// Collective calls. The checkpoint in `folder`; throws Error, on every rank, which names the file that is
  /// wrong.
  static std::unique_ptr<OpenCheckpoint> open(World& world, const std::filesystem::path& folder);
  /// The newest good checkpoint beyond step `after` in a run's `folder`. All ranks use rank 0's list of the
  /// folder. Null if it holds none beyond that step. Rank 0 logs those that are not good. Throws Error, on
  /// every rank, if none is good.
  static std::unique_ptr<OpenCheckpoint> newest(World& world, const std::filesystem::path& folder,
                                                std::int64_t after = -1);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  bool holds(const std::string& part) const { return notes_.contains(part); }
  /// This rank's data of a part. If the number of ranks has changed, only the data that ranks share, except
  /// for the random streams (kRandomPart), which are those of the saved rank with the same number. Throws
  /// Error.
  SavedPart part(const std::string& name) const;

 private:
  OpenCheckpoint(const World& world, std::filesystem::path folder);

  std::filesystem::path folder_;
  Manifest manifest_;
  int rank_, ranks_;
  nlohmann::json notes_;  // of this rank, or of rank 0 where there was none
};

inline constexpr const char* kRandomPart = "random";

}  // namespace hookline
