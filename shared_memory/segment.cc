#include "shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/text/bytes_text.h"

namespace hookline {
namespace {

[[noreturn]] void fail(const char* what, std::size_t bytes) {
  throw Error("shared memory of " + binary_bytes_text(bytes) + ": " + what + ": " + std::strerror(errno));
}

// Seals that keep the size: accessing a mapped page that no longer exists ends the process with SIGBUS.
constexpr int kKeepsItsSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedSegment::SharedSegment(std::size_t bytes)
    : descriptor_(::memfd_create("hookline", MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
  if (descriptor_ < 0) fail("memfd_create", bytes);
  try {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail("ftruncate", bytes);
    if (::fcntl(descriptor_, F_ADD_SEALS, kKeepsItsSize) != 0) fail("fcntl", bytes);
    map();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SharedSegment::SharedSegment(int descriptor, std::size_t bytes) : descriptor_(descriptor), bytes_(bytes) {
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail("fstat", bytes);
    const int seals = ::fcntl(descriptor_, F_GET_SEALS);
    if (static_cast<std::size_t>(status.st_size) != bytes || seals < 0 ||
        (seals & kKeepsItsSize) != kKeepsItsSize)
      throw Error("what was received is not shared memory of " + binary_bytes_text(bytes));
    map();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SharedSegment::~SharedSegment() {
  ::munmap(data_, bytes_);
  ::close(descriptor_);
}

void SharedSegment::map() {
  void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) fail("mmap", bytes_);
  data_ = static_cast<std::byte*>(mapped);
}

}  // namespace hookline
