// Folders that this user may not enter or read, in words that say which one and what to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

namespace hookline {

/// This user may not access a folder. Counts as bad input, like a folder that does not exist.
class FolderAccessError : public Error {
 public:
  using Error::Error;
};

/// Why this user can't access `path`, and what to do about it: a folder above it may not be entered, or
/// `path` is a folder that may not be entered or read. Empty if there is no such problem; `path` need not
/// exist.
std::string access_problem(const std::filesystem::path& path);

/// The same in parts: what is wrong, and what to do. `why` is what is wrong without `path`: "this user may
/// not enter the folder '/a'".
struct AccessProblem {
  std::string what, why, advice;
};
std::optional<AccessProblem> find_access_problem(const std::filesystem::path& path);

/// Is `file` there, and this user not permitted to read it?
bool may_not_read(const std::filesystem::path& file);

/// Throws FolderAccessError with access_problem(path), if there is one. An empty path has none.
void expect_access(const std::filesystem::path& path);

}  // namespace hookline
