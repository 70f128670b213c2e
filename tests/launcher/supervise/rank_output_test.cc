#include "launcher/supervise/rank_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "support/process.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::read_file;
using testing::TemporaryFolder;

RankSpec rank_that_is_not_shown(const std::filesystem::path& folder) {
  RankSpec rank;
  rank.log_folder = folder;
  return rank;
}

void print(const FileDescriptor& pipe, const std::string& text) {
  ASSERT_EQ(write(pipe.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(RankOutput, KeepsLogsOfARankWhoseOutputIsNotShown) {
  const TemporaryFolder folder;
  RankOutput output({rank_that_is_not_shown(folder.path())});
  RankOutput::Pipes pipes = output.open_pipes(0);
  print(pipes.output, "to output\n");
  print(pipes.error, "first\nsecond");
  output.read();
  EXPECT_TRUE(output.is_written()) << "nothing of it is for the launcher's own output";
  EXPECT_EQ(read_file(folder.path() / "stdout.log"), "to output\n");
  EXPECT_EQ(read_file(folder.path() / "stderr.log"), "first\nsecond");
  EXPECT_THAT(output.error_tail(0).lines(), ElementsAre("first", "second"));
}

TEST(RankOutput, StopsReadingPipesItHasDrained) {
  const TemporaryFolder folder;
  RankOutput output({rank_that_is_not_shown(folder.path())});
  RankOutput::Pipes pipes = output.open_pipes(0);
  std::vector<pollfd> before, after;
  output.add_readable(before);
  EXPECT_EQ(before.size(), 2u);
  print(pipes.output, "the last words\n");
  output.drain();  // although a leftover process may still hold the other ends
  output.add_readable(after);
  EXPECT_THAT(after, IsEmpty());
  EXPECT_EQ(read_file(folder.path() / "stdout.log"), "the last words\n");
}

}  // namespace
}  // namespace hookline
