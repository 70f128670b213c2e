#include "base/text/count_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace hookline {
namespace {

TEST(CountText, HasAPluralUnlessThereIsOne) {
  EXPECT_EQ(count_text(0, "file"), "0 files");
  EXPECT_EQ(count_text(1, "file"), "1 file");
  EXPECT_EQ(count_text(2, "file"), "2 files");
}

TEST(CountText, TakesCountsOfEveryType) {
  EXPECT_EQ(count_text(std::vector<int>{4}.size(), "GPU"), "1 GPU");
  EXPECT_EQ(count_text(std::int64_t{10'000'000'000}, "byte"), "10000000000 bytes");
}

TEST(CountText, RoundsCountsFromAMillionOn) {
  EXPECT_EQ(rounded_count_text(1, "parameter"), "1 parameter");
  EXPECT_EQ(rounded_count_text(999'999, "parameter"), "999999 parameters");
  EXPECT_EQ(rounded_count_text(1'000'000, "parameter"), "1 million parameters");
  EXPECT_EQ(rounded_count_text(6'305'290, "parameter"), "6.31 million parameters");
  EXPECT_EQ(rounded_count_text(999'999'999, "parameter"), "1 billion parameters");
  EXPECT_EQ(rounded_count_text(1'200'000'000, "parameter"), "1.2 billion parameters");
}

}  // namespace
}  // namespace hookline
