#include "base/text/list_text.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

TEST(ListText, JoinsItemsAsASentenceDoes) {
  EXPECT_EQ(list_text({}), "");
  EXPECT_EQ(list_text({"a"}), "a");
  EXPECT_EQ(list_text({"a", "b"}), "a and b");
  EXPECT_EQ(list_text({"a", "b", "c"}), "a, b and c");
}

TEST(ListText, CountsTheItemsBeyondTheMost) {
  EXPECT_EQ(list_text({"a", "b", "c", "d"}, 2), "a, b and 2 more");
  EXPECT_EQ(list_text({"a", "b", "c"}, 2), "a, b and c") << "a count of one is as long as the item";
}

TEST(ListText, NamesRanks) {
  EXPECT_EQ(rank_names({1}), "rank 1");
  EXPECT_EQ(rank_names({1, 3}), "ranks 1 and 3");
  EXPECT_EQ(rank_names({0, 2, 3}), "ranks 0, 2 and 3");
  EXPECT_EQ(rank_names({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace hookline
