#include "checkpoint/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "support/failure.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::eventually;
using testing::failure_of;
using ::testing::StartsWith;
using testing::TemporaryFolder;

/// What is_locked() returns in a separate process; nullopt if it does not return in time.
std::optional<bool> answer_about(const std::filesystem::path& folder) {
  const pid_t asking = fork();
  if (asking == 0) _exit(is_locked(folder) ? 1 : 0);
  int status = 0;
  if (eventually([&] { return waitpid(asking, &status, WNOHANG) == asking; }))
    return WEXITSTATUS(status) == 1;
  kill(asking, SIGKILL);
  waitpid(asking, nullptr, 0);
  return std::nullopt;
}

TEST(FolderLock, IsVisibleToOtherProcessesWhileHeld) {
  const TemporaryFolder folder;
  EXPECT_EQ(answer_about(folder.path()), false) << "nobody has made a lock";
  {
    const FolderLock lock(folder.path(), "checkpoint_dir");
    EXPECT_EQ(answer_about(folder.path()), true);
  }
  EXPECT_EQ(answer_about(folder.path()), false);
  EXPECT_EQ(answer_about(folder.path() / "nowhere"), false);
  EXPECT_EQ(answer_about(folder.write("file", "")), false);
}

TEST(FolderLock, WaitsForTheHolderToRelease) {
  const TemporaryFolder folder;
  auto held = std::make_unique<FolderLock>(folder.path(), "checkpoint_dir");
  EXPECT_NE(failure_of([&] { FolderLock(folder.path(), "checkpoint_dir", std::chrono::milliseconds(50)); }),
            "");
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.reset();
  });
  EXPECT_NO_THROW(FolderLock(folder.path(), "checkpoint_dir", std::chrono::minutes(2)));
  holder.join();
}

TEST(FolderLock, RemembersWhoseFolderItIs) {
  const TemporaryFolder folder;
  EXPECT_EQ(FolderLock(folder.path(), "checkpoint_dir").claimed_by(), "");
  FolderLock(folder.path(), "checkpoint_dir").claim_for("a longer launch");
  FolderLock(folder.path(), "checkpoint_dir").claim_for("launch 2");
  FolderLock held(folder.path(), "checkpoint_dir");
  EXPECT_EQ(held.claimed_by(), "launch 2");
  EXPECT_THAT(
      failure_of([&] { FolderLock(folder.path(), "checkpoint_dir"); }),
      ::testing::MatchesRegex("checkpoint_dir '.*' is in use by another run \\(process [0-9]+ on [^ ]+"
                              "\\): wait for its end, or name another folder"));
}

// Opening a named pipe blocks until its other end is opened.
TEST(FolderLock, DoesNotBlockOnANamedPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder.path() / kFolderLockFile).c_str(), 0600), 0);
  EXPECT_EQ(answer_about(folder.path()), false);
  EXPECT_THAT(failure_of([&] { FolderLock(folder.path(), "checkpoint_dir"); }),
              AllOf(StartsWith("checkpoint_dir '" + folder.path().string() +
                               "' can't be written to: it is a named pipe"),
                    EndsWith(": name another folder")));
}

}  // namespace
}  // namespace hookline
