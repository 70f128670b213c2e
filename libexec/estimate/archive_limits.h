// Limits the memory that reading one of torch's zip archives may take: its records may be compressed, and
// their unpacked content may need still more memory once parsed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace hookline {

/// Why an archive is not read; what() says it about the archive: "its tensors have 1.2 GiB, …".
class ArchiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ArchiveRecord {
  std::string name;         // "data/0", "code/__torch__.py"
  std::uint64_t bytes = 0;  // unpacked
};

/// Throws ArchiveError unless the records may be those of a TorchScript model in a file of `file_bytes`: its
/// tensors are stored as they are, and everything else is short.
void check_records(const std::vector<ArchiveRecord>& records, std::uint64_t file_bytes);

/// Limits what this process may allocate from now on to what a model in a file of `file_bytes` needs. Further
/// allocations throw std::bad_alloc. Returns the limit in bytes.
std::uint64_t limit_memory(std::uint64_t file_bytes);

/// What to say when an allocation has failed.
std::string out_of_memory_text(std::uint64_t limit_bytes);

}  // namespace hookline
