#include "base/text/time_text.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

constexpr std::time_t kNoon = 1'769'860'800;  // of 31 January 2026, in UTC

TEST(TimeText, IsInUtcForPeople) { EXPECT_EQ(time_text(kNoon), "2026-01-31 12:00:00 UTC"); }

TEST(TimeText, IsReadBackFromAFile) {
  EXPECT_EQ(file_time_text(kNoon), "2026-01-31T12:00:00Z");
  EXPECT_EQ(time_text(file_time_text(kNoon)), "2026-01-31 12:00:00 UTC");
}

TEST(TimeText, LeavesOtherTextsAsTheyAre) {
  EXPECT_EQ(time_text(std::string()), "");
  EXPECT_EQ(time_text(std::string("yesterday")), "yesterday");
  EXPECT_EQ(time_text(std::string("2026-01-31T12:00:00Z or so")), "2026-01-31T12:00:00Z or so");
  EXPECT_EQ(time_text(std::string("2026-01-31T12:00:00Z\0", 21)), std::string("2026-01-31T12:00:00Z\0", 21));
}

TEST(TimeText, HasNoSpaceInNames) {
  std::tm local{};
  local.tm_year = 126, local.tm_mday = 31, local.tm_hour = 12, local.tm_isdst = -1;
  EXPECT_EQ(time_name(std::mktime(&local)), "20260131-120000");
}

}  // namespace
}  // namespace hookline
