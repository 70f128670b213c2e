#include "checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/text/count_text.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;

const std::string kPrefix = "step_";
const std::string kPart = ".part";
const std::string kOld = ".old";

fs::path with_ending(const fs::path& folder, const std::string& ending) {
  // "DIR/" has no file name: the ending goes right after DIR.
  const fs::path plain = folder.has_filename() ? folder : folder.parent_path();
  return plain.string() + ending;
}

fs::path folder_above(const fs::path& folder) {
  const fs::path above = with_ending(folder, "").parent_path();
  return above.empty() ? fs::path(".") : above;
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error && error != std::errc::not_a_directory)
    throw Error("'" + folder.string() + "' can't be removed: " + error.message());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw Error("'" + from.string() + "' can't be renamed to '" + to.string() + "': " + error.message());
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [last, problem] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (problem != std::errc() || last != end || step < 0) return std::nullopt;
  return step;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error("the folder '" + folder.string() + "' can't be read: " + error.message());
  return entries;
}

}  // namespace

fs::path part_of(const fs::path& checkpoint) { return with_ending(checkpoint, kPart); }

void begin_part(const fs::path& checkpoint) {
  const fs::path part = part_of(checkpoint);
  remove_folder(part);
  std::error_code error;
  fs::create_directories(part, error);
  if (error) throw Error("the folder '" + part.string() + "' can't be made: " + error.message());
}

void commit_part(const fs::path& checkpoint, const Manifest& manifest) {
  const fs::path part = part_of(checkpoint), old = with_ending(checkpoint, kOld),
                 name = with_ending(checkpoint, "");
  write_durably(part / kManifestName, manifest_text(manifest));
  sync_folder(part);
  const bool replaces = fs::exists(name);
  if (!replaces) {
    rename_folder(part, name);
  } else if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS)
      throw Error("'" + part.string() + "' can't take the place of '" + name.string() +
                  "': " + std::strerror(errno));
    remove_folder(old);
    rename_folder(name, old);
    rename_folder(part, name);
  }
  sync_folder(folder_above(checkpoint));
  remove_folder(part);
  remove_folder(old);
}

fs::path locate(const fs::path& checkpoint) {
  const fs::path old = with_ending(checkpoint, kOld);
  return !fs::exists(checkpoint) && fs::exists(old / kManifestName) ? old : checkpoint;
}

std::string checkpoint_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "%s%08lld", kPrefix.c_str(), static_cast<long long>(step));
  return name;
}

std::vector<FoundCheckpoint> list_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  for (const fs::path& entry : entries_of(folder)) {
    std::string name = entry.filename().string();
    // NAME.old counts only if there is no NAME: a crash came between the two renames that replace a
    // checkpoint where the file system can't exchange folders.
    if (name.ends_with(kOld)) {
      name.resize(name.size() - kOld.size());
      if (fs::exists(folder / name)) continue;
    }
    if (const auto step = step_of(name)) found.push_back({entry, *step});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

void expect_no_checkpoints(const fs::path& folder) {
  const std::vector<FoundCheckpoint> found = list_checkpoints(folder);
  if (found.empty()) return;
  throw Error("checkpoint_dir '" + folder.string() + "' holds checkpoints of an earlier run (" +
              found.front().path.filename().string() +
              "): set resume = \"auto\" in [training] to resume from the newest, or name another folder");
}

void expect_none_beyond(const fs::path& folder, std::int64_t step) {
  const std::vector<FoundCheckpoint> found = list_checkpoints(folder);
  if (found.empty() || found.front().step <= step) return;
  throw Error("checkpoint_dir '" + folder.string() + "' holds checkpoints beyond step " +
              std::to_string(step) + ", the newest of them " + found.front().path.filename().string() +
              ": the run resumes from step " + std::to_string(step) +
              ", and a restart would resume from the newest instead; move those checkpoints away, or name "
              "another folder");
}

std::vector<std::string> problems_of(const fs::path& checkpoint, const Manifest& manifest,
                                     const std::function<bool(const std::string& name)>& wanted) {
  std::vector<std::string> problems;
  for (const FileRecord& record : manifest.files) {
    if (!wanted(record.name)) continue;
    const fs::path file = checkpoint / record.name;
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(file, error);
    if (error) {
      problems.push_back("'" + file.string() + "' can't be read: " + error.message());
    } else if (bytes != record.bytes) {
      // Exact, since the two may differ by a single byte.
      problems.push_back("'" + file.string() + "' has " + count_text(bytes, "byte") + " where " +
                         count_text(record.bytes, "byte") + " were written");
    } else if (checksum_of_file(file) != record.checksum) {
      problems.push_back("'" + file.string() + "' has changed since it was written: its checksum differs");
    }
  }
  return problems;
}

void prune_checkpoints(const fs::path& folder, std::int64_t keep, std::int64_t step) {
  std::int64_t kept = 0;
  for (const FoundCheckpoint& found : list_checkpoints(folder)) {
    if (found.step <= step && ++kept > keep) remove_folder(found.path);
  }
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    const bool is_part = name.ends_with(kPart), is_old = name.ends_with(kOld);
    if (!is_part && !is_old) continue;
    const std::string of = name.substr(0, name.size() - (is_part ? kPart : kOld).size());
    if (step_of(of) && (is_part || fs::exists(folder / of))) remove_folder(entry);
  }
}

}  // namespace hookline
