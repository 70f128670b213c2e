// Files that a user or a rank supplies, which may be anything: opening one never waits.
#pragma once

#include <sys/types.h>
#include <ext/stdio_filebuf.h>

#include <cstdint>
#include <filesystem>
#include <istream>
#include <limits>
#include <string>
#include <string_view>

namespace hookline {

/// Why a file was not opened, for those who word an error of their own.
enum class FileProblem { none, missing, directory, not_regular, too_large, refused };

/// A descriptor of a regular file, or why there is none.
struct RegularFile {
  int descriptor = -1;      // the caller's, to close
  std::uint64_t bytes = 0;  // of the file when it was opened
  FileProblem problem = FileProblem::none;
  std::string why;  // "Permission denied", "it is a named pipe, not a regular file"; empty if it is open
};

/// Opens `file` like open() with `flags` and `mode`, following links, but refuses anything except a regular
/// file. It never blocks on a named pipe, and never acquires a controlling terminal.
RegularFile open_regular(const std::filesystem::path& file, int flags, mode_t mode = 0);

/// A regular file of at most `most_bytes`, as a stream. It is good() if the file was opened; else problem()
/// and why() tell.
class InputFile : public std::istream {
 public:
  static constexpr std::uint64_t kAnySize = std::numeric_limits<std::uint64_t>::max();

  explicit InputFile(const std::filesystem::path& file, std::uint64_t most_bytes = kAnySize);

  FileProblem problem() const { return file_.problem; }
  const std::string& why() const { return file_.why; }
  std::uint64_t bytes() const { return file_.bytes; }  // when it was opened
  int descriptor() const { return file_.descriptor; }  // its own, -1 if it is not open

  /// The rest of it. Sets problem() and why() if it can't be read to its end, or has grown beyond
  /// `most_bytes`.
  std::string read_all();

 private:
  RegularFile file_;
  std::uint64_t most_bytes_;
  __gnu_cxx::stdio_filebuf<char> buffer_;
};

/// All of `file`. Throws Error, "'FILE' can't be read: …", if it is not a regular file of at most
/// `most_bytes`.
std::string read_regular_file(const std::filesystem::path& file, std::uint64_t most_bytes);

/// Writes `text` into `file`, from its start. Why it could not: "No space left on device"; empty if it could.
std::string write_regular_file(const std::filesystem::path& file, std::string_view text);

/// The same, but a process that is killed meanwhile leaves what was there before: writes "FILE.new", and
/// renames it.
std::string replace_regular_file(const std::filesystem::path& file, std::string_view text);

/// Writes all of `text` to an open descriptor, and closes it. Why it could not; empty if it could.
std::string write_and_close(int descriptor, std::string_view text);

}  // namespace hookline
