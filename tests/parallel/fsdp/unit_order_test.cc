// The order of gathers and reductions, tested without a model.
#include "parallel/fsdp/unit_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace hookline {
namespace {

using ::testing::ElementsAre;

/// The root 0 contains the units 1 and 2; unit 2 contains 3.
UnitOrder after_one_forward() {
  UnitOrder order;
  for (const std::size_t unit : {0u, 1u}) order.begin_forward(unit);
  order.end_forward(1);
  for (const std::size_t unit : {2u, 3u}) order.begin_forward(unit);
  for (const std::size_t unit : {3u, 2u, 0u}) order.end_forward(unit);
  return order;
}

std::vector<std::size_t> gathers(UnitOrder& order, const std::set<std::size_t>& needed) {
  std::vector<std::size_t> all;
  while (const auto unit = order.next_in_backward([&](std::size_t each) { return needed.contains(each); }))
    all.push_back(*unit);
  return all;
}

TEST(UnitOrder, KeepsTheOrderOfTheFirstForwards) {
  UnitOrder order = after_one_forward();
  for (const std::size_t unit : {2u, 0u, 3u, 1u}) order.begin_forward(unit);
  EXPECT_THAT(order.begun(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(order.next_in_forward(1), 2u);
  EXPECT_EQ(order.next_in_forward(3), std::nullopt) << "it was the last";
  EXPECT_EQ(order.next_in_forward(9), std::nullopt) << "it never ran";
}

TEST(UnitOrder, AddsAUnitThatFirstRunsLater) {
  UnitOrder order = after_one_forward();
  order.begin_forward(4);
  order.end_forward(4);
  EXPECT_EQ(order.next_in_forward(3), 4u);
  order.begin_backward();
  EXPECT_THAT(gathers(order, {0, 1, 2, 3, 4}), ElementsAre(4, 0, 2, 3, 1));
}

TEST(UnitOrder, GathersInReverseOrderOfFinishedForwards) {
  UnitOrder order = after_one_forward();
  EXPECT_THAT(gathers(order, {0, 1, 2, 3}), ElementsAre()) << "no backward has begun";
  for (int backward = 0; backward < 2; ++backward) {
    order.begin_backward();
    EXPECT_THAT(gathers(order, {0, 1, 2, 3}), ElementsAre(0, 2, 3, 1));
    EXPECT_THAT(gathers(order, {0, 1, 2, 3}), ElementsAre()) << "each has one turn in a backward";
  }
}

TEST(UnitOrder, SkipsUnitsThatNeedNoGather) {
  UnitOrder order = after_one_forward();
  order.begin_backward();
  EXPECT_THAT(gathers(order, {1, 2}), ElementsAre(2, 1));
}

TEST(UnitOrder, KnowsWhichUnitsAreStillAhead) {
  UnitOrder order = after_one_forward();
  EXPECT_FALSE(order.is_ahead_in_backward(1)) << "no backward has begun";
  order.begin_backward();
  const auto all = [](std::size_t) { return true; };
  EXPECT_EQ(order.next_in_backward(all), 0u);
  EXPECT_EQ(order.next_in_backward(all), 2u);
  EXPECT_FALSE(order.is_ahead_in_backward(2));
  EXPECT_TRUE(order.is_ahead_in_backward(3));
  EXPECT_TRUE(order.is_ahead_in_backward(1));
  EXPECT_FALSE(order.is_ahead_in_backward(9)) << "it never ran";
}

TEST(UnitOrder, DefersUnitsThatFirstRunDuringABackward) {
  UnitOrder order = after_one_forward();
  order.begin_backward();
  order.end_forward(4);
  EXPECT_FALSE(order.is_ahead_in_backward(4));
  EXPECT_THAT(gathers(order, {0, 1, 2, 3, 4}), ElementsAre(0, 2, 3, 1));
  order.begin_backward();
  EXPECT_THAT(gathers(order, {0, 1, 2, 3, 4}), ElementsAre(4, 0, 2, 3, 1));
}

}  // namespace
}  // namespace hookline
