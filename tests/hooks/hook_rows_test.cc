#include "hooks/catalog/hook_rows.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> names(const std::vector<HookRow>& rows) {
  std::vector<std::string> out;
  for (const HookRow& row : rows) out.push_back(row.name);
  return out;
}

std::string bytes_of(const std::string& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

/// A temporary file with the given bytes.
class TempFile {
 public:
  explicit TempFile(const std::string& bytes) {
    const int fd = mkstemp(path_.data());
    close(fd);
    write(bytes);
  }
  ~TempFile() { std::filesystem::remove(path_); }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "hookline-rows-XXXXXX").string();
};

/// The names that were read, or the error.
std::string outcome(const std::string& file) {
  try {
    std::string text;
    for (const std::string& name : names(read_hook_rows(file))) text += name + " ";
    return text;
  } catch (const CatalogError& error) {
    return error.what();
  }
}

TEST(HookRows, AreReadFromAnExecutable) {
  const std::vector<HookRow> rows = read_hook_rows(PROGRAM_WITH_ROWS);
  // The compiler may place them in any order.
  ASSERT_THAT(names(rows), UnorderedElementsAre("clip_allreduce", "sign"));
  const bool swapped = rows[0].name == "sign";
  const HookRow& clip = rows[swapped ? 1 : 0];
  const HookRow& sign = rows[swapped ? 0 : 1];
  EXPECT_EQ(clip.options.at(0).name, "max_norm");
  EXPECT_EQ(clip.options.at(0).help, "Largest norm.");
  EXPECT_THAT(sign.aliases, ElementsAre("signum"));
  EXPECT_FALSE(sign.wrappable);
}

TEST(HookRows, SurviveGarbageCollectionOfSections) {
  EXPECT_THAT(names(read_hook_rows(PROGRAM_WITH_ROWS_GC)), UnorderedElementsAre("clip_allreduce", "sign"));
}

TEST(HookRows, SurviveStrip) {
  EXPECT_THAT(names(read_hook_rows(PROGRAM_WITH_ROWS_STRIPPED)),
              UnorderedElementsAre("clip_allreduce", "sign"));
}

TEST(HookRows, AreEmptyForOtherFiles) {
  EXPECT_THAT(read_hook_rows("/proc/self/exe"), IsEmpty());
  EXPECT_THAT(read_hook_rows("/"), IsEmpty());
  EXPECT_THAT(read_hook_rows("/dev/null"), IsEmpty());
  EXPECT_THAT(read_hook_rows(TempFile("").path()), IsEmpty());
  EXPECT_THAT(read_hook_rows(TempFile("#!/usr/bin/env python3\nprint(1)\n").path()), IsEmpty());
  EXPECT_THAT(read_hook_rows(TempFile("\x7f"
                                      "ELF")
                                 .path()),
              IsEmpty());
}

TEST(HookRows, OfAMissingFileAreAnError) {
  EXPECT_EQ(outcome("/nowhere/train"), "/nowhere/train: cannot read its hooks: No such file or directory");
}

TEST(HookRows, ThatAreBrokenNameTheProgramAndTheField) {
  EXPECT_EQ(outcome(PROGRAM_WITH_BROKEN_ROW),
            std::string(PROGRAM_WITH_BROKEN_ROW) + ": hook 'sign' has an unknown field \"wrapable\"");
}

TEST(HookRows, BeyondTheEndOfTheFileAreAnError) {
  std::string bytes = bytes_of(PROGRAM_WITH_ROWS);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t section = bytes.find("clip_allreduce");
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr each;
    char* at = bytes.data() + header.e_shoff + static_cast<std::size_t>(i) * sizeof each;
    std::memcpy(&each, at, sizeof each);
    if (each.sh_offset > section || each.sh_offset + each.sh_size < section || each.sh_type != SHT_PROGBITS)
      continue;
    each.sh_offset = ~std::uint64_t{0} - 8;
    std::memcpy(at, &each, sizeof each);
  }
  const TempFile file(bytes);
  EXPECT_EQ(outcome(file.path()),
            file.path() + ": its section hookline_hooks is damaged: build the file again");
}

TEST(HookRows, OfATruncatedProgramNeverCrashTheReader) {
  const std::string bytes = bytes_of(PROGRAM_WITH_ROWS_STRIPPED);
  ASSERT_GT(bytes.size(), 1000U);
  const TempFile file("");
  for (std::size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 97) {
    file.write(bytes.substr(0, length));
    // The section headers come last; unless all are present, no section can be found.
    EXPECT_EQ(outcome(file.path()), "") << length << " bytes";
  }
}

TEST(HookRows, OfADamagedProgramNeverCrashTheReader) {
  const std::string bytes = bytes_of(PROGRAM_WITH_ROWS_STRIPPED);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string whole = outcome(PROGRAM_WITH_ROWS_STRIPPED);
  std::mt19937 random(1);
  const TempFile file("");
  int intact = 0, rounds = 2000;
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = bytes;
    // The reader follows the headers, so damage those.
    const std::size_t table = round % 2 ? 0 : header.e_shoff;
    const std::size_t size = round % 2 ? sizeof header : bytes.size() - header.e_shoff;
    for (int i = 0; i < 3; ++i)
      damaged[table + random() % size] = static_cast<char>(random() % 3 ? random() : 0xff);
    file.write(damaged);
    if (outcome(file.path()) == whole) ++intact;
  }
  EXPECT_GT(intact, 0);
  EXPECT_LT(intact, rounds);
}

}  // namespace
}  // namespace hookline
