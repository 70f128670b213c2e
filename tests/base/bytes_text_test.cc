#include "base/text/bytes_text.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

TEST(BytesText, HasThreeDigitsInPowersOfAThousand) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1'000), "1 kB");
  EXPECT_EQ(bytes_text(1'234), "1.23 kB");
  EXPECT_EQ(bytes_text(70'000), "70 kB");
  EXPECT_EQ(bytes_text(399'996), "400 kB");
  EXPECT_EQ(bytes_text(25'249'000), "25.2 MB");
  EXPECT_EQ(bytes_text(2'520'000'000), "2.52 GB");
  EXPECT_EQ(bytes_text(3e12), "3 TB");
  EXPECT_EQ(bytes_text(12.34), "12.3 B") << "a mean";
}

TEST(BytesText, PicksTheUnitAfterRounding) {
  EXPECT_EQ(bytes_text(999'499), "999 kB");
  EXPECT_EQ(bytes_text(999'500), "1 MB");
  EXPECT_EQ(bytes_text(999'999'999), "1 GB");
  EXPECT_STREQ(bytes_unit(999'999).name, "MB");
  EXPECT_STREQ(bytes_unit(999'000).name, "kB");
}

TEST(BytesText, NamesRatesInTheSameUnits) {
  EXPECT_EQ(rate_text(1.2e8), "120 MB/s");
  EXPECT_EQ(rate_text(70e3), "70 kB/s");
}

TEST(BytesText, CountsLimitsAndMemoryInPowersOf1024) {
  EXPECT_EQ(binary_bytes_text(512), "512 B");
  EXPECT_EQ(binary_bytes_text(256 << 10), "256 KiB");
  EXPECT_EQ(binary_bytes_text(1000 << 10), "1000 KiB");
  EXPECT_EQ(binary_bytes_text(3 << 19), "1.5 MiB");
  EXPECT_EQ(binary_bytes_text((1 << 30) - 1), "1 GiB");
  EXPECT_EQ(binary_bytes_text(0x1p40), "1 TiB");
}

TEST(BytesText, DistinguishesJustOverALimitFromTheLimit) {
  EXPECT_EQ(bytes_beyond_text(3 << 10, 2 << 10), "3 KiB");
  EXPECT_EQ(bytes_beyond_text((2 << 10) + 1, 2 << 10), "more than 2 KiB");
}

}  // namespace
}  // namespace hookline
