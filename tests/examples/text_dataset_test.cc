#include "text_dataset.h"

#include <gtest/gtest.h>

#include <string>

#include "support/process.h"

namespace charlm {
namespace {

using hookline::testing::TemporaryFolder;

std::string failure_of(const std::string& file, std::int64_t context) {
  try {
    const Text text(file, context);
  } catch (const TextError& error) {
    return error.what();
  }
  return "none";
}

TEST(CharlmText, NumbersCharactersInTheOrderOfTheirCodes) {
  const TemporaryFolder folder;
  std::string written;
  for (int i = 0; i < 100; ++i) written += "cab\n";
  const Text text(folder.write("text", written), 8);
  EXPECT_EQ(text.vocabulary(), 4);
  EXPECT_EQ(text.training().size(0), 360);
  EXPECT_EQ(text.validation().size(0), 40) << "the last tenth";
  EXPECT_TRUE(text.training().slice(0, 0, 4).equal(at::tensor({3, 1, 2, 0}, at::kLong)));
  EXPECT_EQ(text.decoded(text.training().slice(0, 0, 6)), "cab\nca");
}

TEST(CharlmText, WindowsOverlapAndTargetTheNextToken) {
  Windows windows(at::arange(20, at::kLong), 4, 3);
  ASSERT_EQ(windows.size(), 6u);
  EXPECT_TRUE(windows.get(1).data.equal(at::tensor({3, 4, 5, 6}, at::kLong)));
  EXPECT_TRUE(windows.get(1).target.equal(at::tensor({4, 5, 6, 7}, at::kLong)));
  EXPECT_TRUE(windows.get(5).target.equal(at::tensor({16, 17, 18, 19}, at::kLong)))
      << "the last token is used";
}

TEST(CharlmText, SaysWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(failure_of("/no/such/text", 8),
            "/no/such/text: not a file that can be read; name a text with --text");
  EXPECT_EQ(failure_of("/proc/self/mem", 8),  // as from a failing disk
            "/proc/self/mem: can't be read; check its permissions, and its disk");
  const std::string file = folder.write("short", "too short").string();
  EXPECT_EQ(failure_of(file, 8), file + ": has 9 characters; with --context 8 a text needs 90 at least");
}

}  // namespace
}  // namespace charlm
