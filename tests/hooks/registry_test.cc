#include "hooks/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "hooks/ddp/allreduce.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

// A context sufficient to build a hook; it communicates nothing.
HookContext alone() {
  return {std::make_shared<Comm>(0, 1, [](const std::string&) { return ProcessGroupPtr(); })};
}

std::unique_ptr<CommHook> build(const std::string& hook, const std::string& wrapper = "no",
                                const OptionMap& options = {}) {
  return Registry::built_in().build(hook, wrapper, options, alone());
}

std::string failure_of_building(const std::string& hook, const std::string& wrapper = "no",
                                const OptionMap& options = {}) {
  try {
    build(hook, wrapper, options);
  } catch (const HookError& error) {
    return error.what();
  }
  return "no error";
}

HookFactory allreduce_factory() {
  return
      [](HookContext context, const OptionMap&) { return std::make_unique<Allreduce>(std::move(context)); };
}

TEST(Registry, HoldsAFactoryForEachNameInTheCatalog) {
  const Registry registry = Registry::built_in();
  EXPECT_GE(registry.catalog().hooks().size(), 7u);
  for (const HookRow& hook : registry.catalog().hooks()) {
    EXPECT_EQ(registry.has_factory(hook.name), hook.name != "no") << hook.name;
  }
  for (const WrapperRow& wrapper : registry.catalog().wrappers()) {
    EXPECT_EQ(registry.has_wrapper_factory(wrapper.name), wrapper.name != "no") << wrapper.name;
  }
}

TEST(Registry, BuildsEveryHookInEveryWrapperThatTheCatalogAllows) {
  const Registry registry = Registry::built_in();
  for (const HookRow& hook : registry.catalog().hooks()) {
    for (const WrapperRow& wrapper : registry.catalog().wrappers()) {
      const bool wrapped = wrapper.name != "no";
      if (wrapped && (!hook.wrappable || hook.half_precision)) {
        EXPECT_NE(failure_of_building(hook.name, wrapper.name), "no error")
            << hook.name << " in " << wrapper.name;
      } else {
        EXPECT_EQ(build(hook.name, wrapper.name) == nullptr, hook.name == "no" && !wrapped)
            << hook.name << " in " << wrapper.name;
      }
    }
  }
}

TEST(Registry, BuildsNothingForNoHookInNoWrapper) {
  EXPECT_EQ(build("no"), nullptr);
  EXPECT_EQ(build("none"), nullptr);
}

TEST(Registry, WrapsDdpsOwnAverage) {
  EXPECT_EQ(build("no", "fp16")->describe(), "allreduce in fp16");
  EXPECT_EQ(build("no", "bf16")->describe(), "allreduce in bf16");
}

TEST(Registry, BuildsByAliasWithDefaultsAndGivenOptions) {
  EXPECT_EQ(build("powerSGD")->describe(), "power_sgd(rank=1, start=1000)");
  EXPECT_EQ(build("power_sgd", "bf16", {{"matrix_approximation_rank", std::int64_t{4}}})->describe(),
            "power_sgd(rank=4, start=1000) in bf16");
  EXPECT_EQ(build("batched_powerSGD")->describe(), "batched_power_sgd(rank=1, start=1000)");
  EXPECT_EQ(build("fp16")->describe(), "fp16");
  EXPECT_EQ(build("noop")->describe(), "noop");
}

TEST(Registry, TakesAnIntegerForANumber) {
  EXPECT_NE(build("power_sgd", "no", {{"min_compression_rate", std::int64_t{3}}}), nullptr);
}

TEST(Registry, NamesTheNearestHookAndWrapper) {
  EXPECT_EQ(failure_of_building("powersdg"),
            "unknown communication hook 'powersdg'; did you mean 'power_sgd'?");
  EXPECT_EQ(failure_of_building("quantum"), "unknown communication hook 'quantum'");
  EXPECT_EQ(failure_of_building("power_sgd", "fp61"), "unknown wrapper 'fp61'; did you mean 'fp16'?");
}

TEST(Registry, NamesAnOptionThatTheHookLacks) {
  EXPECT_EQ(failure_of_building("power_sgd", "no", {{"rank", std::int64_t{2}}}),
            "power_sgd: it has no option 'rank'");
  EXPECT_EQ(failure_of_building("allreduce", "no", {{"matrix_approximation_rank", std::int64_t{2}}}),
            "allreduce: it has no option 'matrix_approximation_rank'");
}

TEST(Registry, NamesAnOptionOutOfRangeOrOfAnotherType) {
  EXPECT_EQ(failure_of_building("power_sgd", "no", {{"matrix_approximation_rank", std::int64_t{0}}}),
            "power_sgd: matrix_approximation_rank = 0 must be an integer, at least 1");
  EXPECT_EQ(failure_of_building("power_sgd", "no", {{"warm_start", std::int64_t{1}}}),
            "power_sgd: warm_start = 1 must be true or false");
  EXPECT_EQ(failure_of_building("batched_power_sgd", "no", {{"random_seed", std::int64_t{4294967296}}}),
            "batched_power_sgd: random_seed = 4294967296 must be an integer from 0 to 4294967295");
}

TEST(Registry, RefusesHalfPrecisionInsideAWrapper) {
  EXPECT_EQ(
      failure_of_building("bf16", "fp16"),
      "the hook 'bf16' sends half precision itself: inside the wrapper 'fp16' gradients would be cast twice");
}

TEST(Registry, NamesTheHookWhoseConstructorFails) {
  Registry registry = Registry::built_in();
  HookRow row;
  row.name = "careless";
  row.summary = "Asks for an option that it does not declare.";
  registry.add(row, [](HookContext, const OptionMap& options) -> std::unique_ptr<CommHook> {
    std::get<double>(options.at("max_norm"));
    return nullptr;
  });
  EXPECT_THAT(testing::failure_of<HookError>([&] { registry.build("careless", "no", {}, {}); }),
              ::testing::StartsWith("the hook 'careless' can't be built: "));
}

TEST(Registry, RefusesAHookThatCannotBeWrapped) {
  EXPECT_EQ(failure_of_building("noop", "bf16"),
            "the hook 'noop' needs the gradients as they are: leave the wrapper 'bf16' out");
}

TEST(Registry, RefusesAnEarlyStartThatWouldLoseState) {
  EXPECT_THAT(failure_of_building("power_sgd", "no", {{"start_powerSGD_iter", std::int64_t{1}}}),
              ::testing::StartsWith("power_sgd: start_powerSGD_iter must be at least 2 "));
  EXPECT_EQ(
      failure_of_building(
          "power_sgd", "no",
          {{"start_powerSGD_iter", std::int64_t{0}}, {"use_error_feedback", false}, {"warm_start", false}}),
      "no error");
}

TEST(Registry, AddsAHookOfTheProgram) {
  Registry registry = Registry::built_in();
  HookRow row;
  row.name = "mine";
  row.aliases = {"also_mine"};
  registry.add(row, allreduce_factory());
  EXPECT_TRUE(registry.has_factory("mine"));
  EXPECT_EQ(registry.build("also_mine", "fp16", {}, alone())->describe(), "allreduce in fp16");
}

TEST(Registry, RefusesATakenNameAndStaysUnchanged) {
  Registry registry = Registry::built_in();
  const std::size_t before = registry.catalog().hooks().size();
  HookRow row;
  row.name = "noop";
  try {
    registry.add(row, allreduce_factory());
    ADD_FAILURE() << "no error";
  } catch (const CatalogError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("hook 'noop' is there already, "));
  }
  EXPECT_EQ(registry.catalog().hooks().size(), before);
  EXPECT_EQ(registry.build("noop", "no", {}, alone())->describe(), "noop");
}

}  // namespace
}  // namespace hookline
