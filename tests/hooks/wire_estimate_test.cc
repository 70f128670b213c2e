#include "hooks/catalog/wire_estimate.h"

#include <gtest/gtest.h>

#include "support/failure.h"

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

const std::vector<Shape> kModel = {{1024, 512}, {1024}, {10, 1024}, {10}, {}};  // 535,563 parameters

TEST(WireEstimate, IsTheWholeGradientForAveragingHooks) {
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

TEST(WireEstimate, IsUnknownForOtherHooks) {
  HookRow mine;
  mine.name = "mine";
  EXPECT_FALSE(bytes_per_step(mine, {}, *kCatalog.find_wrapper("no"), kModel));
}

TEST(WireEstimate, RefusesModelsLargerThanAnyMachine) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50, kHuge = std::int64_t{1} << 62;
  const std::string parameter = "a parameter has more elements than any machine holds (2^50 are the most)";
  const std::string model = "the model has more parameters than any machine holds (2^50 are the most)";
  const auto problem = [](const std::vector<Shape>& shapes) {
    return testing::failure_of([&] { numel_of(shapes); });
  };
  EXPECT_EQ(numel_of(std::vector<Shape>{{kMost}}), kMost);
  EXPECT_EQ(numel_of(Shape{kHuge, kHuge, 0}), 0);
  EXPECT_EQ(problem({{kMost + 1}}), parameter);
  EXPECT_EQ(problem({{kHuge, 4}}), parameter) << "2^64 is 0 in 64 bits";
  EXPECT_EQ(problem({{kMost}, {1}}), model);
  EXPECT_EQ(problem(std::vector<Shape>(20'000, Shape{kMost})), model) << "whose sum exceeds 64 bits";
  for (const char* const hook : {"no", "power_sgd"}) {
    const HookRow& row = *kCatalog.find_hook(hook);
    EXPECT_EQ(*bytes_per_step(row, default_options(row), *kCatalog.find_wrapper("no"), {{kMost}}),
              4.0 * kMost)
        << hook;
  }
}

TEST(WireEstimate, AssumesTypicalShapesForAParameterCount) {
  for (const std::int64_t parameters :
       {1LL, 7LL, 1000LL, 1'049'599LL, 1'049'600LL, 1'000'000LL, 10'000'000LL}) {
    std::int64_t count = 0;
    for (const Shape& shape : typical_shapes(parameters)) {
      EXPECT_GT(numel_of(shape), 0) << parameters;
      count += numel_of(shape);
    }
    EXPECT_EQ(count, parameters);
  }
}

}  // namespace
}  // namespace hookline
