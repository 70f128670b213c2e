#include "checkpoint/replace_durably.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "support/process.h"

namespace hookline::testing {
namespace {
namespace fs = std::filesystem;

TEST(ReplaceDurably, KeepsLinksAndPermissions) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file", link = folder.path() / "link";
  replace_durably(file, "one");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("file", link);
  replace_durably(link, "two");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(file), "two");
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(ReplaceDurably, WritesIntoAPipeAndDoesNotReplaceIt) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  replace_durably(pipe, "text");
  char text[16] = "";
  EXPECT_EQ(read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
  close(reader);
}

std::string problem_of(const fs::path& file) {
  try {
    replace_durably(file, "text");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReplaceDurably, DoesNotWaitForTheReaderOfAPipe) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(problem_of(pipe),
            "can't write to '" + pipe.string() + "', which is not a regular file: nobody reads from it");
}

}  // namespace
}  // namespace hookline::testing
