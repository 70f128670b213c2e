#include "tracking/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hookline {

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t AppendFile::append(std::string_view bytes, std::string& problem) {
  problem.clear();
  while (descriptor_ < 0) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EINTR) {
      problem = std::strerror(errno);
      return 0;
    }
  }
  std::size_t written = 0;
  while (problem.empty() && written < bytes.size()) {
    const ssize_t count = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
    if (count > 0)
      written += static_cast<std::size_t>(count);
    else if (count == 0 || errno != EINTR)
      problem = count == 0 ? "it takes nothing" : std::strerror(errno);
  }
  return written;
}

bool AppendFile::take_back(std::size_t count) {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && static_cast<std::size_t>(status.st_size) >= count &&
         ::ftruncate(descriptor_, status.st_size - static_cast<off_t>(count)) == 0;
}

}  // namespace hookline
