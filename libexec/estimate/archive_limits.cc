#include "libexec/estimate/archive_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <system_error>

#include "base/text/bytes_text.h"
#include "libexec/estimate/pickle.h"

namespace hookline {
namespace {

constexpr std::uint64_t kMemoryBesides = std::uint64_t{1} << 30;  // for code, lists and libtorch itself
constexpr int kMemoryForEachByte = 2;                             // of the file
constexpr const char* kAdvice = ": it is damaged, or not a torch model";

/// a + b, or the largest number if that overflows.
std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t all = 0;
  return __builtin_add_overflow(a, b, &all) ? std::numeric_limits<std::uint64_t>::max() : all;
}

/// Bytes of this process's private data, which RLIMIT_DATA limits.
std::uint64_t own_data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "VmData:" && status >> kibibytes) return kibibytes * 1024;
  }
  throw ArchiveError("/proc/self/status does not say how much memory this process has: is /proc mounted?");
}

}  // namespace

void check_records(const std::vector<ArchiveRecord>& records, std::uint64_t file_bytes) {
  std::uint64_t tensors = 0, others = 0;
  for (const ArchiveRecord& record : records) {
    if (record.name.starts_with("extra/")) continue;  // files of the program, which are not read here
    const bool is_tensor = record.name.starts_with("data/") || record.name.starts_with("constants/");
    std::uint64_t& all = is_tensor ? tensors : others;
    all = sum(all, record.bytes);
  }
  if (tensors > file_bytes)
    throw ArchiveError("its tensors have " + bytes_beyond_text(tensors, file_bytes) + " in a file of " +
                       binary_bytes_text(file_bytes) + ", and torch stores them as they are" + kAdvice);
  if (others > kMostPickleBytes)
    throw ArchiveError("its code and its lists have " + bytes_beyond_text(others, kMostPickleBytes) +
                       ", and the most is " + binary_bytes_text(kMostPickleBytes) + kAdvice);
}

std::uint64_t limit_memory(std::uint64_t file_bytes) {
  std::uint64_t model = 0;
  if (__builtin_mul_overflow(file_bytes, kMemoryForEachByte, &model))
    model = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t bytes = sum(model, kMemoryBesides);
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0)
    throw std::system_error(errno, std::generic_category(), "getrlimit");
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, sum(own_data_bytes(), bytes));
  if (::setrlimit(RLIMIT_DATA, &limit) != 0)
    throw std::system_error(errno, std::generic_category(), "setrlimit");
  const rlimit no_core{0, 0};  // if the file crashes its reader
  ::setrlimit(RLIMIT_CORE, &no_core);
  return bytes;
}

std::string out_of_memory_text(std::uint64_t limit_bytes) {
  return "reading it takes more than " + binary_bytes_text(limit_bytes) +
         " of memory, and no model in a file of its size needs as much" + kAdvice;
}

}  // namespace hookline
