#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ios>

#include "base/error.h"
#include "base/text/bytes_text.h"

namespace hookline {
namespace {

RegularFile not_opened(FileProblem problem, std::string why) { return {-1, 0, problem, std::move(why)}; }

RegularFile refused(int error_number) {
  return not_opened(error_number == ENOENT ? FileProblem::missing : FileProblem::refused,
                    std::strerror(error_number));
}

/// The result for a file of type `mode` that is not a regular file.
RegularFile of_another_kind(mode_t mode) {
  if (S_ISDIR(mode)) return not_opened(FileProblem::directory, "it is a directory");
  const char* const kind = S_ISFIFO(mode)                   ? "a named pipe"
                           : S_ISSOCK(mode)                 ? "a socket"
                           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                                            : "something else";
  return not_opened(FileProblem::not_regular, std::string("it is ") + kind + ", not a regular file");
}

RegularFile open_input(const std::filesystem::path& file, std::uint64_t most_bytes) {
  RegularFile opened = open_regular(file, O_RDONLY);
  if (opened.descriptor < 0 || opened.bytes <= most_bytes) return opened;
  ::close(opened.descriptor);
  return {-1, opened.bytes, FileProblem::too_large,
          "it has " + bytes_beyond_text(opened.bytes, most_bytes) + ", and at most " +
              binary_bytes_text(most_bytes) + " are read"};
}

}  // namespace

RegularFile open_regular(const std::filesystem::path& file, int flags, mode_t mode) {
  int descriptor;
  do {
    descriptor = ::open(file.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  struct stat info {};
  if (descriptor < 0) {
    const int error_number = errno;
    // The message of ENXIO does not say which it is: a pipe without a reader, a socket, or a device without a
    // driver.
    if (error_number == ENXIO && ::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
      return of_another_kind(info.st_mode);
    if (error_number == EISDIR) return of_another_kind(S_IFDIR);
    return refused(error_number);
  }
  const int error_number = ::fstat(descriptor, &info) != 0 ? errno : 0;
  if (error_number == 0 && S_ISREG(info.st_mode))
    return {descriptor, static_cast<std::uint64_t>(info.st_size), FileProblem::none, ""};
  ::close(descriptor);
  return error_number != 0 ? refused(error_number) : of_another_kind(info.st_mode);
}

InputFile::InputFile(const std::filesystem::path& file, std::uint64_t most_bytes)
    : std::istream(nullptr),
      file_(open_input(file, most_bytes)),
      most_bytes_(most_bytes),
      buffer_(file_.descriptor, std::ios::in | std::ios::binary) {  // the buffer closes the descriptor
  rdbuf(&buffer_);
  if (file_.descriptor < 0) setstate(std::ios::failbit);
}

std::string InputFile::read_all() {
  std::string text;
  std::array<char, 1 << 16> block;
  while (good() && text.size() <= most_bytes_) {
    read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(gcount()));
  }
  if (bad()) {
    file_.problem = FileProblem::refused;
    file_.why = "it can't be read to its end";
  } else if (text.size() > most_bytes_) {
    file_.problem = FileProblem::too_large;
    file_.why = "it has more than " + binary_bytes_text(most_bytes_) + ", which is the most that is read";
  }
  return text;
}

std::string read_regular_file(const std::filesystem::path& file, std::uint64_t most_bytes) {
  InputFile input(file, most_bytes);
  std::string text = input.read_all();
  if (input.problem() != FileProblem::none)
    throw Error("'" + file.string() + "' can't be read: " + input.why());
  return text;
}

std::string write_regular_file(const std::filesystem::path& file, std::string_view text) {
  const RegularFile opened = open_regular(file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  return opened.descriptor < 0 ? opened.why : write_and_close(opened.descriptor, text);
}

std::string replace_regular_file(const std::filesystem::path& file, std::string_view text) {
  const RegularFile former = open_regular(file, O_WRONLY, 0);
  if (former.descriptor >= 0)
    ::close(former.descriptor);
  else if (former.problem != FileProblem::missing)
    return former.why;
  const std::filesystem::path aside = file.string() + ".new";
  std::string problem = write_regular_file(aside, text);
  std::error_code error;
  if (problem.empty()) {
    std::filesystem::rename(aside, file, error);
    if (!error) return "";
    problem = error.message();
  }
  std::filesystem::remove(aside, error);
  return problem;
}

std::string write_and_close(int descriptor, std::string_view text) {
  int error_number = 0;
  while (error_number == 0 && !text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      error_number = errno;
  }
  if (::close(descriptor) != 0 && error_number == 0) error_number = errno;
  return error_number == 0 ? "" : std::strerror(error_number);
}

}  // namespace hookline
