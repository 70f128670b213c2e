#include "libexec/estimate/archive_limits.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "support/failure.h"
#include "support/sanitized.h"

namespace hookline {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

std::string problem(const std::vector<ArchiveRecord>& records, std::uint64_t file_bytes) {
  return testing::failure_of<ArchiveError>([&] { check_records(records, file_bytes); });
}

TEST(ArchiveLimits, AcceptTheRecordsOfAModel) {
  EXPECT_EQ(problem({{"data.pkl", 500},
                     {"code/a.py", 300'000},
                     {"constants.pkl", 4},
                     {"data/0", 8000},
                     {"constants/0", 100},
                     {"extra/notes", 1000 * kMebibyte}},
                    10'000),
            "no error");
}

TEST(ArchiveLimits, RefuseTensorsLargerThanTheFile) {
  EXPECT_EQ(problem({{"data/0", 2 * kMebibyte}, {"constants/0", 1}}, 2 * kMebibyte),
            "its tensors have more than 2 MiB in a file of 2 MiB, and torch stores them as they are: it is "
            "damaged, or not a torch model");
  EXPECT_NE(problem({{"data/0", ~std::uint64_t{0}}, {"data/1", 2}}, 100), "no error")
      << "which is 1 in 64 bits";
}

TEST(ArchiveLimits, RefuseOversizedCodeAndLists) {
  EXPECT_EQ(
      problem({{"data.pkl", 200 * kMebibyte}, {"code/a.py", 100 * kMebibyte}}, 1000),
      "its code and its lists have 300 MiB, and the most is 256 MiB: it is damaged, or not a torch model");
}

TEST(ArchiveLimits, MakeLargerAllocationsFail) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's own memory exceeds the limit";
  const pid_t child = fork();
  if (child == 0) {  // the limit applies to the whole process
    const std::uint64_t limit_bytes = limit_memory(100 * kMebibyte);
    if (limit_bytes != 1224 * kMebibyte) _exit(3);
    // Called as a function, since the compiler may remove an unused new-expression.
    try {
      ::operator delete(::operator new(limit_bytes + 100 * kMebibyte));
      _exit(4);
    } catch (const std::bad_alloc&) {
      ::operator delete(::operator new(1000 * kMebibyte));
      _exit(0);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(
      out_of_memory_text(1224 * kMebibyte),
      "reading it takes more than 1.2 GiB of memory, and no model in a file of its size needs as much: it "
      "is damaged, or not a torch model");
}

}  // namespace
}  // namespace hookline
