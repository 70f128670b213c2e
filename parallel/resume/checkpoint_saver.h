// Writes checkpoints, together with the other ranks.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>

#include "parallel/tensors/saved_part.h"
#include "parallel/world/world.h"

namespace hookline {

/// What one rank puts into a checkpoint.
struct CheckpointContent {
  std::int64_t step = 0;
  std::string hook;
  std::map<std::string, SavedPart> parts;  // by CheckpointPart::name
};

/// A checkpoint consists of NAME.safetensors with the tensors of each part that ranks share,
/// rank_R.safetensors with those that belong to a rank or differ from rank 0's, and a manifest. The folder
/// gets its final name only after all ranks have confirmed, over the saver's own process group, that they
/// have written. A failed save leaves the previous state in place and is logged as an error on rank 0; the
/// run continues.
class CheckpointSaver {
 public:
  /// A collective call.
  explicit CheckpointSaver(std::shared_ptr<World> world);
  /// Waits for a save under way.
  ~CheckpointSaver();

  /// Collective calls: every rank with the same `folder`, in the same order. `after` runs on rank 0 once the
  /// folder is there. True if it is. Throws RunFailed.
  bool save(const std::filesystem::path& folder, CheckpointContent content,
            const std::function<void()>& after);
  /// The same on a thread, from a copy of the tensors; waits for the save before, so that there is one copy
  /// at most.
  void save_in_background(const std::filesystem::path& folder, CheckpointContent content,
                          std::function<void()> after);

  /// Waits for the save under way, if there is one: true unless it failed.
  bool wait();

 private:
  std::string write(const std::filesystem::path& folder, const CheckpointContent& content);
  bool save_now(const std::filesystem::path& folder, const CheckpointContent& content,
                const std::function<void()>& after);

  std::shared_ptr<World> world_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::future<bool> under_way_;
};

/// The file of a rank's own part.
std::string rank_file_name(int rank);

/// Between a part's name and a tensor's in that file.
inline constexpr char kPartEnd = ':';

/// Where, in that file's metadata, the notes of all parts are.
inline constexpr const char* kNotesKey = "hookline";

}  // namespace hookline
