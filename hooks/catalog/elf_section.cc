// Parses ELF by hand: a rank's libraries must not be loaded here, and the file may be anything, so every
// offset is checked.
#include "hooks/catalog/elf_section.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/regular_file.h"
#include "hooks/catalog/catalog.h"

namespace hookline {
namespace {

constexpr std::uint64_t kLargestSectionBytes = 1 << 20;
constexpr std::uint64_t kLargestNameTableBytes = 16 << 20;

/// An open regular file. Reads fail at offsets beyond its end.
class File {
 public:
  explicit File(const std::filesystem::path& path) {
    const RegularFile opened = open_regular(path, O_RDONLY);
    if (opened.problem == FileProblem::missing || opened.problem == FileProblem::refused)
      throw CatalogError(path.string() + ": cannot read its hooks: " + opened.why);
    fd_ = opened.descriptor;
    size_ = opened.bytes;
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool holds(std::uint64_t offset, std::uint64_t length) const {
    return offset <= size_ && length <= size_ - offset;
  }

  bool read(std::uint64_t offset, void* to, std::uint64_t length) const {
    if (!holds(offset, length)) return false;
    auto* out = static_cast<char*>(to);
    while (length > 0) {
      const ssize_t got = pread(fd_, out, length, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      out += got;
      offset += static_cast<std::uint64_t>(got);
      length -= static_cast<std::uint64_t>(got);
    }
    return true;
  }

 private:
  int fd_;
  std::uint64_t size_ = 0;
};

bool is_native_elf(const Elf64_Ehdr& header) {
  constexpr unsigned char native = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == native && header.e_shentsize == sizeof(Elf64_Shdr);
}

/// The section headers; empty if the file has none or they lie outside of it.
std::vector<Elf64_Shdr> section_headers(const File& file, const Elf64_Ehdr& header) {
  Elf64_Shdr first{};
  if (header.e_shoff == 0 || !file.read(header.e_shoff, &first, sizeof first)) return {};
  // With more sections than e_shnum can count, the count lies in the first header.
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  if (count > (kLargestSectionBytes / sizeof(Elf64_Shdr))) return {};
  std::vector<Elf64_Shdr> headers(count);
  if (!file.read(header.e_shoff, headers.data(), count * sizeof(Elf64_Shdr))) return {};
  return headers;
}

std::optional<std::string> section_bytes(const File& file, const Elf64_Shdr& section, std::uint64_t largest) {
  if (section.sh_type == SHT_NOBITS || section.sh_size > largest ||
      !file.holds(section.sh_offset, section.sh_size))
    return std::nullopt;
  std::string bytes(section.sh_size, '\0');
  if (!file.read(section.sh_offset, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

const Elf64_Shdr* find_section(const File& file, const Elf64_Ehdr& header,
                               const std::vector<Elf64_Shdr>& headers, std::string_view wanted) {
  if (headers.empty()) return nullptr;
  const std::uint64_t names_at = header.e_shstrndx == SHN_XINDEX ? headers[0].sh_link : header.e_shstrndx;
  if (names_at >= headers.size()) return nullptr;
  const auto names = section_bytes(file, headers[names_at], kLargestNameTableBytes);
  if (!names) return nullptr;
  for (const Elf64_Shdr& section : headers) {
    if (section.sh_name >= names->size()) continue;
    const std::string_view name = std::string_view(*names).substr(section.sh_name);
    if (name.substr(0, name.find('\0')) == wanted) return &section;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> read_elf_section(const std::filesystem::path& path, const std::string& name) {
  const File file(path);
  Elf64_Ehdr header{};
  if (!file.read(0, &header, sizeof header) || !is_native_elf(header)) return std::nullopt;
  const std::vector<Elf64_Shdr> headers = section_headers(file, header);
  const Elf64_Shdr* section = find_section(file, header, headers, name);
  if (!section) return std::nullopt;
  auto bytes = section_bytes(file, *section, kLargestSectionBytes);
  if (!bytes)
    throw CatalogError(path.string() + ": its section " + name + " is damaged: build the file again");
  return bytes;
}

}  // namespace hookline
