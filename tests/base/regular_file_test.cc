#include "base/regular_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "support/process.h"

namespace hookline {
namespace {

using testing::TemporaryFolder;

std::string failure_of(const std::filesystem::path& file, std::uint64_t most_bytes) {
  try {
    read_regular_file(file, most_bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RegularFile, IsReadWhole) {
  const TemporaryFolder folder;
  const std::string text(100'000, 'x');
  EXPECT_EQ(read_regular_file(folder.write("text", text), text.size()), text);
  EXPECT_EQ(read_regular_file(folder.write("empty", ""), 0), "");
  std::filesystem::create_symlink("text", folder.path() / "link");
  EXPECT_EQ(read_regular_file(folder.path() / "link", text.size()), text);
  EXPECT_EQ(InputFile(folder.path() / "text").bytes(), text.size());
}

TEST(RegularFile, OpensNoOtherKindOfFile) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string name = "'" + pipe.string() + "' can't be read: ";
  EXPECT_EQ(failure_of(pipe, 10), name + "it is a named pipe, not a regular file");
  EXPECT_EQ(failure_of("/dev/zero", 10), "'/dev/zero' can't be read: it is a device, not a regular file");
  EXPECT_EQ(failure_of(folder.path(), 10),
            "'" + folder.path().string() + "' can't be read: it is a directory");
  EXPECT_EQ(failure_of("/no/such", 10), "'/no/such' can't be read: No such file or directory");
  EXPECT_THAT(write_regular_file(pipe, "text"), ::testing::StartsWith("it is a named pipe"));
  EXPECT_EQ(write_regular_file(folder.path(), "text"), "it is a directory");
  EXPECT_EQ(write_regular_file("/dev/full", "text"), "it is a device, not a regular file");
}

TEST(RegularFile, IsNotReadBeyondTheSizeLimit) {
  const TemporaryFolder folder;
  const auto file = folder.write("text", std::string(3 << 10, 'x'));
  EXPECT_EQ(failure_of(file, 2 << 10),
            "'" + file.string() + "' can't be read: it has 3 KiB, and at most 2 KiB are read");
  InputFile grows(file, 4 << 10);
  folder.write("text", std::string(200 << 10, 'x'));
  EXPECT_LE(grows.read_all().size(), 128u << 10);
  EXPECT_EQ(grows.problem(), FileProblem::too_large);
  EXPECT_EQ(grows.why(), "it has more than 4 KiB, which is the most that is read");
}

TEST(RegularFile, IsReplacedByWhatIsWritten) {
  const TemporaryFolder folder;
  const auto file = folder.write("text", "longer than what comes");
  EXPECT_EQ(write_regular_file(file, "short"), "");
  EXPECT_EQ(read_regular_file(file, 100), "short");
  EXPECT_EQ(replace_regular_file(file, "whole"), "");
  EXPECT_EQ(read_regular_file(file, 100), "whole");
  EXPECT_EQ(replace_regular_file(folder.path() / "new", "first"), "");
  EXPECT_EQ(read_regular_file(folder.path() / "new", 100), "first");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "no temporary file is left";
}

TEST(RegularFile, StaysIfItCanNotBeReplaced) {
  const TemporaryFolder folder;
  const auto file = folder.write("text", "former");
  std::filesystem::create_directory(folder.path() / "text.new");
  EXPECT_EQ(replace_regular_file(file, "whole"), "it is a directory");
  EXPECT_EQ(read_regular_file(file, 100), "former");
  EXPECT_EQ(replace_regular_file("/dev/full", "text"), "it is a device, not a regular file");
}

}  // namespace
}  // namespace hookline
