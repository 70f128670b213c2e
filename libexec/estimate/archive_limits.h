// How much memory a zip archive of torch's may take: its records are stored in fewer bytes than they have, and what is in
// them may take more again.
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

/// Throws ArchiveError unless the records may be those of a TorchScript model in a file of `file_bytes`: its tensors are
/// stored as they are, and everything else is short.
void check_records(const std::vector<ArchiveRecord>& records, std::uint64_t file_bytes);

/// Lets this process allocate what a model in a file of `file_bytes` takes, beyond what it has already, and no more. Allocations
/// fail then: std::bad_alloc. Returns how many bytes these are.
std::uint64_t limit_memory(std::uint64_t file_bytes);

/// What to say when an allocation has failed.
std::string out_of_memory_text(std::uint64_t limit_bytes);

}  // namespace hookline
