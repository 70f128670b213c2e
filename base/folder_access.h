// Folders that this user may not enter or read, in words that say which one and what to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

namespace hookline {

/// A folder that this user may not use: bad input, as a folder that is not there.
class FolderAccessError : public Error {
 public:
  using Error::Error;
};

/// Why `path` can't be looked at, if a folder on the way to it may not be entered, or it is a folder itself that may not be
/// read; with what to do. Empty if neither is so; `path` need not be there.
std::string access_problem(const std::filesystem::path& path);

/// The same in two parts: what is wrong, and what to do.
struct AccessProblem {
  std::string what, advice;
};
std::optional<AccessProblem> find_access_problem(const std::filesystem::path& path);

/// Is `file` there, and this user not permitted to read it?
bool may_not_read(const std::filesystem::path& file);

/// Throws FolderAccessError with access_problem(), if there is one. An empty path is none.
void expect_access(const std::filesystem::path& path);

}  // namespace hookline
