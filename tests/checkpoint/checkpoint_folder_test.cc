#include "checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "base/error.h"
#include "checkpoint/durable_file.h"
#include "support/failure.h"
#include "support/process.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::failure_of;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

bool everything(const std::string&) { return true; }

Manifest save(const fs::path& checkpoint, const std::string& text, std::int64_t step = 1) {
  begin_part(checkpoint);
  Manifest manifest{step, 1, "no hook", "2026-01-31T12:00:00Z", "0.1.0", {}};
  manifest.files.push_back(write_durably(part_of(checkpoint) / "a", text));
  commit_part(checkpoint, manifest);
  return manifest;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(CheckpointFolder, AppearsOnlyOnceComplete) {
  const TemporaryFolder scratch;
  const fs::path checkpoint = scratch.path() / "above/state";
  begin_part(checkpoint);
  write_durably(part_of(checkpoint) / "a", "torn");
  EXPECT_THAT(names_in(scratch.path() / "above"), ElementsAre("state.part"));
  save(checkpoint, "whole");
  EXPECT_THAT(names_in(scratch.path() / "above"), ElementsAre("state"));
  EXPECT_THAT(names_in(checkpoint), ElementsAre("a", "manifest.json"));
  EXPECT_EQ(testing::read_file(checkpoint / "a"), "whole");
}

TEST(CheckpointFolder, ReplacesAnOlderOne) {
  const TemporaryFolder scratch;
  save(scratch.path() / "state", "old");
  save(scratch.path() / "state/", "new", 2);
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("state"));
  EXPECT_EQ(testing::read_file(scratch.path() / "state/a"), "new");
  EXPECT_EQ(read_manifest(scratch.path() / "state").step, 2);
}

TEST(CheckpointFolder, IsLocatedAfterACrashDuringASave) {
  const TemporaryFolder scratch;
  save(scratch.path() / "state.old", "old");
  EXPECT_EQ(locate(scratch.path() / "state"), scratch.path() / "state.old");
  save(scratch.path() / "state", "new");
  EXPECT_EQ(locate(scratch.path() / "state"), scratch.path() / "state");
  EXPECT_FALSE(fs::exists(scratch.path() / "state.old"));
}

TEST(CheckpointFolder, NamesEachDamagedFile) {
  const TemporaryFolder scratch;
  const fs::path checkpoint = scratch.path() / "state";
  const Manifest manifest = save(checkpoint, "text");
  const std::string file = "'" + (checkpoint / "a").string() + "' ";
  EXPECT_THAT(problems_of(checkpoint, manifest, everything), IsEmpty());
  scratch.write("state/a", "tex");
  EXPECT_THAT(problems_of(checkpoint, manifest, everything),
              ElementsAre(file + "has 3 bytes where 4 bytes were written"));
  EXPECT_THAT(problems_of(checkpoint, manifest, [](const std::string& name) { return name != "a"; }),
              IsEmpty());
  scratch.write("state/a", "tixt");
  EXPECT_THAT(problems_of(checkpoint, manifest, everything),
              ElementsAre(file + "has changed since it was written: its checksum differs"));
  fs::remove(checkpoint / "a");
  EXPECT_THAT(problems_of(checkpoint, manifest, everything),
              ElementsAre(file + "can't be read: No such file or directory"));
}

TEST(CheckpointFolder, KeepsTheNewest) {
  const TemporaryFolder scratch;
  for (const std::int64_t step : {5, 100'000'000, 20})
    save(scratch.path() / checkpoint_name(step), "x", step);
  begin_part(scratch.path() / checkpoint_name(30));
  scratch.write("notes.txt", "mine");
  scratch.write("step_of_mine/file", "mine");
  prune_checkpoints(scratch.path(), 2, 100'000'000);
  EXPECT_THAT(names_in(scratch.path()),
              ElementsAre("notes.txt", "step_00000020", "step_100000000", "step_of_mine"));
  const auto found = list_checkpoints(scratch.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].step, 100'000'000);
  EXPECT_EQ(found[1].path, scratch.path() / "step_00000020");
  EXPECT_THAT(list_checkpoints(scratch.path() / "no/such"), IsEmpty());
  EXPECT_EQ(failure_of([&] { list_checkpoints(scratch.path() / "notes.txt"); }),
            "the folder '" + (scratch.path() / "notes.txt").string() + "' can't be read: Not a directory");
}

TEST(CheckpointFolder, PruningKeepsTheOneJustSavedDespiteLaterSteps) {
  const TemporaryFolder scratch;
  for (const std::int64_t step : {100, 150, 300}) save(scratch.path() / checkpoint_name(step), "x", step);
  prune_checkpoints(scratch.path(), 1, 150);
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("step_00000150", "step_00000300"));
  expect_none_beyond(scratch.path(), 300);
  EXPECT_EQ(failure_of([&] { expect_none_beyond(scratch.path(), 150); }),
            "checkpoint_dir '" + scratch.path().string() +
                "' holds checkpoints beyond step 150, the newest of them step_00000300: the run resumes "
                "from step 150, and a restart would resume from the newest instead; move those "
                "checkpoints away, or name another folder");
}

TEST(CheckpointFolder, ListsTheOldCopyIfACrashLeftNoOther) {
  const TemporaryFolder scratch;
  save(scratch.path() / "step_00000010.old", "x", 10);
  ASSERT_EQ(list_checkpoints(scratch.path()).size(), 1U);
  EXPECT_EQ(list_checkpoints(scratch.path())[0].path, scratch.path() / "step_00000010.old");
  prune_checkpoints(scratch.path(), 3, 10);
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("step_00000010.old"));
}

/// While alive, limits files of this process to `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_{};
};

TEST(DurableFile, NamesTheFileAndTheReason) {
  const TemporaryFolder scratch;
  const std::string file = (scratch.path() / "file").string();
  const std::string why = [&] {
    const FileSizeLimit limit(2);
    return failure_of([&] { write_durably(file, "text"); });
  }();
  EXPECT_EQ(why, "'" + file + "' can't be written: File too large");
  EXPECT_EQ(failure_of([] { write_durably("/dev/full", "text"); }),
            "'/dev/full' can't be written: it is a device, not a regular file");
  EXPECT_EQ(failure_of([] { write_durably("/no/such/file", "text"); }),
            "'/no/such/file' can't be written: No such file or directory");
  EXPECT_EQ(failure_of([] { checksum_of_file("/no/such/file"); }),
            "'/no/such/file' can't be read: No such file or directory");
}

TEST(DurableFile, KnowsItsChecksum) {
  const TemporaryFolder scratch;
  const FileRecord record = write_durably(scratch.path() / "a", "hookline");
  EXPECT_EQ(record.name, "a");
  EXPECT_EQ(record.bytes, 8U);
  EXPECT_EQ(record.checksum, checksum_of("hookline", 8));
  EXPECT_EQ(record.checksum, checksum_of_file(scratch.path() / "a"));
  EXPECT_EQ(checksum_of("", 0), "2d06800538d394c2") << "XXH3_64bits of nothing";
}

}  // namespace
}  // namespace hookline
