#include "checkpoint/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace hookline {

DurableFile::DurableFile(std::filesystem::path file) : file_(std::move(file)) {
  const RegularFile opened = open_regular(file_, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (opened.descriptor < 0) throw Error("'" + file_.string() + "' can't be written: " + opened.why);
  descriptor_ = opened.descriptor;
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DurableFile::fail(int error_number) const {
  throw Error("'" + file_.string() + "' can't be written: " + std::strerror(error_number));
}

void DurableFile::write(const void* data, std::size_t bytes) {
  constexpr std::size_t kLargest = 1 << 30;  // Linux writes no more than 2 GiB at once
  checksum_.add(data, bytes);
  bytes_ += bytes;
  for (const char* next = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, kLargest));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

FileRecord DurableFile::finish() {
  if (::fsync(descriptor_) != 0) fail(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
  return {file_.filename().string(), bytes_, checksum_.text()};
}

FileRecord write_durably(const std::filesystem::path& file, std::string_view text) {
  DurableFile out(file);
  out.write(text.data(), text.size());
  return out.finish();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error_number = errno;
  if (descriptor >= 0) ::close(descriptor);
  // EINVAL: some file systems can't sync a folder.
  if (!synced && error_number != EINVAL)
    throw Error("the folder '" + folder.string() + "' can't be synced: " + std::strerror(error_number));
}

}  // namespace hookline
