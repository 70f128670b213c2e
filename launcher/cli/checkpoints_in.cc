#include "launcher/cli/checkpoints_in.h"

#include "base/folder_access.h"
#include "checkpoint/checkpoint_folder.h"
#include "launcher/cli/arguments.h"

namespace hookline {

namespace fs = std::filesystem;

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  expect_access(folder);
  const fs::path checkpoint = locate(folder);
  std::error_code ignored;
  if (fs::exists(checkpoint / kManifestName, ignored)) return {checkpoint};
  if (!fs::is_directory(folder, ignored)) throw UsageError("there is no folder '" + folder.string() + "'");
  std::vector<fs::path> found;
  for (const FoundCheckpoint& entry : list_checkpoints(folder)) found.push_back(entry.path);
  if (found.empty())
    throw UsageError("'" + folder.string() + "' is not a checkpoint, and holds none: it has neither " +
                     kManifestName + " nor folders such as " + checkpoint_name(100));
  return found;
}

std::uint64_t bytes_of(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const FileRecord& file : manifest.files) bytes += file.bytes;
  return bytes;
}

}  // namespace hookline
