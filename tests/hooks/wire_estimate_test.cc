#include "hooks/wire_estimate.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

const Catalog kCatalog = Catalog::built_in();

double bytes(const std::string& hook, const std::string& wrapper, const std::vector<Shape>& shapes,
             std::int64_t rank = 1) {
  const HookRow& row = *kCatalog.find_hook(hook);
  OptionMap options = default_options(row);
  if (options.contains("matrix_approximation_rank")) options["matrix_approximation_rank"] = rank;
  return *bytes_per_step(row, options, *kCatalog.find_wrapper(wrapper), shapes);
}

const std::vector<Shape> kModel = {{1024, 512}, {1024}, {10, 1024}, {10}, {}};  // 535,563 in all

TEST(WireEstimate, IsTheWholeGradientOfHooksThatAverageIt) {
  EXPECT_EQ(bytes("no", "no", kModel), 4 * 535'563);
  EXPECT_EQ(bytes("allreduce", "no", kModel), 4 * 535'563);
  EXPECT_EQ(bytes("fp16", "no", kModel), 2 * 535'563);
  EXPECT_EQ(bytes("allreduce", "bf16", kModel), 2 * 535'563);
  EXPECT_EQ(bytes("noop", "no", kModel), 0);
}

TEST(WireEstimate, IsPAndQWherePowerSgdCompresses) {
  const double rest = 1024 + 10 + 1;
  EXPECT_EQ(bytes("power_sgd", "no", kModel), 4 * ((1024 + 512) + (10 + 1024) + rest));
  // At rank 5 the last layer would not shrink by half: (10 + 1024) * 5 * 2 >= 10 * 1024.
  EXPECT_EQ(bytes("power_sgd", "fp16", kModel, 5), 2 * ((1024 + 512) * 5 + 10 * 1024 + rest));
  EXPECT_EQ(bytes("batched_power_sgd", "no", kModel, 2), 4 * 2 * 732 * 2);
}

TEST(WireEstimate, KnowsNothingOfOtherHooks) {
  HookRow mine;
  mine.name = "mine";
  EXPECT_FALSE(bytes_per_step(mine, {}, *kCatalog.find_wrapper("no"), kModel));
}

TEST(WireEstimate, TakesTypicalShapesForANumberOfParameters) {
  for (const std::int64_t parameters : {1LL, 7LL, 1000LL, 1'049'599LL, 1'049'600LL, 10'000'000LL}) {
    std::int64_t count = 0;
    for (const Shape& shape : typical_shapes(parameters)) count += numel_of(shape);
    EXPECT_EQ(count, parameters);
  }
}

}  // namespace
}  // namespace hookline
