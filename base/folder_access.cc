#include "base/folder_access.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace hookline {
namespace {
namespace fs = std::filesystem;

/// True if the kernel would refuse this process: like the kernel, it checks as the effective user.
bool is_refused(const fs::path& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) != 0 && errno == EACCES;
}

AccessProblem words(const fs::path& path, const char* may_not, const fs::path& folder, const char* mode) {
  const std::string why =
      "this user may not " + std::string(may_not) + " the folder '" + folder.string() + "'";
  return {path == folder ? why : "'" + path.string() + "' can't be reached: " + why, why,
          std::string("ask its owner for access (chmod ") + mode + "), or choose another folder"};
}

}  // namespace

std::optional<AccessProblem> find_access_problem(const fs::path& path) {
  if (path.empty()) return std::nullopt;
  if (path.is_relative() && is_refused(".", X_OK)) return words(path, "enter", ".", "a+x");
  fs::path folder;
  for (const fs::path& part : path) {
    // A folder needs to be entered only if another part follows it. "a" is checked before "a/b", since a
    // check of "a/b" is refused, too, if "a" may not be entered.
    std::error_code none;
    if (!folder.empty() && fs::is_directory(folder, none) && is_refused(folder, X_OK))
      return words(path, "enter", folder, "a+x");
    folder /= part;
  }
  std::error_code none;
  if (!fs::is_directory(path, none)) return std::nullopt;
  if (is_refused(path, X_OK)) return words(path, "enter", path, "a+rx");
  return is_refused(path, R_OK) ? std::optional(words(path, "read", path, "a+r")) : std::nullopt;
}

std::string access_problem(const fs::path& path) {
  const std::optional<AccessProblem> problem = find_access_problem(path);
  return problem ? problem->what + "\n  " + problem->advice : "";
}

bool may_not_read(const fs::path& file) { return is_refused(file, R_OK) && !is_refused(file, F_OK); }

void expect_access(const fs::path& path) {
  if (const std::string problem = access_problem(path); !problem.empty()) throw FolderAccessError(problem);
}

}  // namespace hookline
