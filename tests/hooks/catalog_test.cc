#include "hooks/catalog/catalog.h"

#include <gmock/gmock.h>

#include "hooks/catalog/option_rules.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

using testing::failure_of;

using ::testing::ElementsAre;

template <typename Rows>
std::vector<std::string> names(const Rows& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows) out.push_back(row.name);
  return out;
}

HookRow hook(const std::string& name, std::vector<OptionRow> options = {}) {
  HookRow row;
  row.name = name;
  row.summary = "A hook.";
  row.options = std::move(options);
  return row;
}

OptionRow integer(const std::string& name, std::int64_t value) {
  OptionRow row;
  row.name = name;
  row.default_value = value;
  return row;
}

std::string problem_of(const OptionRow& row, const OptionValue& value) {
  std::string problem;
  return check_value(row, value, problem) ? "none" : problem;
}

TEST(Catalog, NamesTheHooksAndWrappersOfAccelerate) {
  const Catalog catalog = Catalog::built_in();
  EXPECT_THAT(names(catalog.hooks()),
              ElementsAre("no", "allreduce", "fp16", "bf16", "power_sgd", "batched_power_sgd", "noop"));
  EXPECT_THAT(names(catalog.wrappers()), ElementsAre("no", "fp16", "bf16"));
}

TEST(Catalog, FindsHooksByTheirAliases) {
  const Catalog catalog = Catalog::built_in();
  EXPECT_EQ(catalog.find_hook("powerSGD")->name, "power_sgd");
  EXPECT_EQ(catalog.find_hook("none")->name, "no");
  EXPECT_EQ(catalog.find_hook("program:no"), nullptr);
  EXPECT_EQ(catalog.find_wrapper("power_sgd"), nullptr);
}

TEST(Catalog, SpellsTheOptionsOfPowerSgdAsPyTorchDoes) {
  const Catalog catalog = Catalog::built_in();
  EXPECT_THAT(names(catalog.find_hook("power_sgd")->options),
              ElementsAre("matrix_approximation_rank", "start_powerSGD_iter", "min_compression_rate",
                          "use_error_feedback", "warm_start", "orthogonalization_epsilon", "random_seed",
                          "compression_stats_logging_frequency", "batch_tensors_with_same_shape"));
  std::vector<std::string> defaults;
  for (const OptionRow& row : catalog.find_hook("power_sgd")->options)
    defaults.push_back(to_text(row.default_value));
  EXPECT_THAT(defaults, ElementsAre("1", "1000", "2.0", "true", "true", "0.0", "0", "10000", "false"));
}

TEST(Catalog, OmitsOptionsThatBatchedPowerSgdLacks) {
  const Catalog catalog = Catalog::built_in();
  EXPECT_THAT(
      names(catalog.find_hook("batched_power_sgd")->options),
      ElementsAre("matrix_approximation_rank", "start_powerSGD_iter", "use_error_feedback", "warm_start",
                  "orthogonalization_epsilon", "random_seed", "compression_stats_logging_frequency"));
}

TEST(Catalog, KnowsWhichHooksAWrapperFits) {
  const Catalog catalog = Catalog::built_in();
  std::vector<std::string> wrappable, half, averaging;
  for (const HookRow& row : catalog.hooks()) {
    if (row.wrappable) wrappable.push_back(row.name);
    if (row.half_precision) half.push_back(row.name);
    if (row.averages) averaging.push_back(row.name);
  }
  EXPECT_THAT(wrappable, ElementsAre("no", "allreduce", "fp16", "bf16", "power_sgd", "batched_power_sgd"));
  EXPECT_THAT(half, ElementsAre("fp16", "bf16"));
  EXPECT_THAT(averaging, ElementsAre("no", "allreduce", "fp16", "bf16", "power_sgd", "batched_power_sgd"));
}

TEST(Catalog, AddsAHookOfAProgram) {
  Catalog catalog = Catalog::built_in();
  catalog.add(hook("clip_allreduce", {integer("window", 3)}));
  ASSERT_NE(catalog.find_hook("clip_allreduce"), nullptr);
  EXPECT_EQ(catalog.find_hook("clip_allreduce")->options[0].name, "window");
}

TEST(Catalog, RefusesNamesThatAreTakenOrMalformed) {
  Catalog catalog = Catalog::built_in();
  EXPECT_EQ(failure_of<CatalogError>([&] { catalog.add(hook("fp16")); }),
            "hook 'fp16' is there already, hookline's own or the program's; give one of them another name");
  EXPECT_THAT(failure_of<CatalogError>([&] { catalog.add(hook("powerSGD")); }),
              ::testing::StartsWith("hook 'powerSGD' is there already, "));
  EXPECT_EQ(failure_of<CatalogError>([&] { catalog.add(hook("")); }),
            "hook '': a hook's name is a letter, then letters, digits, _, - and .");
  EXPECT_THAT(failure_of<CatalogError>([&] { catalog.add(hook("program:x")); }),
              ::testing::StartsWith("hook 'program:x': a hook's name is "));
  HookRow twice = hook("mine");
  twice.aliases = {"mine"};
  EXPECT_EQ(failure_of<CatalogError>([&] { catalog.add(twice); }), "hook 'mine' has the name 'mine' twice");
  EXPECT_EQ(catalog.hooks().size(), 7U);
}

TEST(Catalog, RefusesOptionsThatCannotBeSet) {
  Catalog catalog = Catalog::built_in();
  EXPECT_EQ(failure_of<CatalogError>([&] { catalog.add(hook("mine", {integer("a b", 1)})); }),
            "hook 'mine', option 'a b': an option's name is a letter, then letters, digits and _");
  EXPECT_EQ(failure_of<CatalogError>([&] {
              catalog.add(hook("mine", {integer("k", 1), integer("K", 1)}));
            }),
            "hook 'mine', option 'K': given twice (options set by environment variables do not distinguish "
            "upper and lower case)");
  OptionRow wrong = integer("k", 0);
  wrong.at_least = 1;
  EXPECT_EQ(failure_of<CatalogError>([&] { catalog.add(hook("mine", {wrong})); }),
            "hook 'mine', option 'k': its default 0 must be an integer, at least 1");
}

TEST(CatalogJson, WritesARowOnOneLine) {
  EXPECT_EQ(
      to_json(hook("mine", {integer("k", 3)})),
      R"({"name":"mine","aliases":[],"summary":"A hook.","options":[{"name":"k","type":"integer","default":3,)"
      R"("help":""}],"wrappable":true,"half_precision":false,"averages":true,"exactness":"unstated",)"
      R"("source":"","parity":""})");
}

TEST(CatalogJson, ReadsBackEveryRowItWrites) {
  const Catalog catalog = Catalog::built_in();
  for (const HookRow& row : catalog.hooks()) {
    const HookRow copy = hook_row_from_json(to_json(row));
    EXPECT_EQ(to_json(copy), to_json(row));
    ASSERT_EQ(copy.options.size(), row.options.size());
    for (std::size_t i = 0; i < row.options.size(); ++i) {
      EXPECT_EQ(copy.options[i].default_value, row.options[i].default_value) << row.options[i].name;
      EXPECT_EQ(copy.options[i].at_most, row.options[i].at_most) << row.options[i].name;
      EXPECT_EQ(copy.options[i].unit, row.options[i].unit) << row.options[i].name;
    }
  }
}

TEST(CatalogJson, FillsInDefaultsForOmittedFields) {
  const HookRow row = hook_row_from_json(
      R"({"name": "clip", "summary": "Clips.", "options": [{"name": "max_norm", "type": "number", "default": 1}]})");
  EXPECT_TRUE(row.wrappable);
  EXPECT_FALSE(row.half_precision);
  EXPECT_TRUE(row.averages);
  EXPECT_EQ(row.source, "none");
  EXPECT_EQ(row.options.at(0).default_value, OptionValue(1.0));
}

TEST(CatalogJson, NamesTheFieldThatIsWrong) {
  const auto error = [](const std::string& json) {
    return failure_of<CatalogError>([&] { hook_row_from_json(json); });
  };
  const std::string start = R"({"name": "clip", "summary": "Clips.")";
  EXPECT_THAT(error("{"), ::testing::StartsWith("a hook's row is not JSON: "));
  EXPECT_THAT(error("\xff"), ::testing::StartsWith("a hook's row is not JSON: "));
  EXPECT_EQ(error("[]"), "a hook's row is not a JSON object");
  EXPECT_EQ(error("{}"), "a hook's row has no field \"name\"");
  EXPECT_EQ(error(R"({"name": "clip"})"), "hook 'clip' has no field \"summary\"");
  EXPECT_EQ(error(R"({"name": 5})"), "a hook's row: field \"name\" must be a string");
  EXPECT_EQ(error(start + R"(, "wrapable": true})"), "hook 'clip' has an unknown field \"wrapable\"");
  EXPECT_EQ(error(start + R"(, "averages": 1})"), "hook 'clip': field \"averages\" must be true or false");
  EXPECT_EQ(error(start + R"(, "aliases": [1]})"),
            "hook 'clip': field \"aliases\" must be an array of strings");
  EXPECT_EQ(error(start + R"(, "options": {}})"),
            "hook 'clip': field \"options\" must be an array of objects");
  EXPECT_EQ(error(start + R"(, "options": [1]})"), "an option of hook 'clip' is not a JSON object");
  EXPECT_EQ(error(start + R"(, "options": [{"name": "k", "type": "int", "default": 1}]})"),
            "hook 'clip', option 'k': field \"type\" must be \"boolean\", \"integer\", \"number\", \"text\" "
            "or \"texts\"");
  EXPECT_EQ(error(start + R"(, "options": [{"name": "k", "type": "texts", "default": [], "at_least": 1}]})"),
            "hook 'clip', option 'k': field \"type\" must be other than \"texts\" with \"at_least\" or "
            "\"at_most\": they are for single values");
  EXPECT_EQ(
      error(start + R"(, "options": [{"name": "k", "type": "texts", "default": ["b"], "allowed": ["a"]}]})"),
      "hook 'clip', option 'k': field \"default\" must be an array of \"a\"");
  EXPECT_EQ(error(start + R"(, "options": [{"name": "k", "type": "integer"}]})"),
            "hook 'clip', option 'k': field \"default\" must be a value of the option's type");
  EXPECT_EQ(error(start + R"(, "options": [{"name": "k", "type": "integer", "default": 0, "at_least": 1}]})"),
            "hook 'clip', option 'k': field \"default\" must be an integer, at least 1");
  EXPECT_EQ(
      error(start + R"(, "options": [{"name": "k", "type": "integer", "default": 18446744073709551615}]})"),
      "hook 'clip', option 'k': field \"default\" must be an integer of 64 bits");
}

TEST(Option, SaysWhatARowAccepts) {
  OptionRow row = integer("k", 1);
  EXPECT_EQ(allowed_text(row), "an integer");
  row.at_least = 1;
  EXPECT_EQ(allowed_text(row), "an integer, at least 1");
  row.at_most = 4294967295.0;
  EXPECT_EQ(allowed_text(row), "an integer from 1 to 4294967295");
  row.or_word = "auto";
  EXPECT_EQ(allowed_text(row), "an integer from 1 to 4294967295, or \"auto\"");
  row = {};
  row.type = OptionType::number;
  row.at_most = 0.5;
  EXPECT_EQ(allowed_text(row), "a number, at most 0.5");
  row.type = OptionType::boolean;
  row.at_most.reset();
  EXPECT_EQ(allowed_text(row), "true or false");
  row.type = OptionType::text;
  EXPECT_EQ(allowed_text(row), "a string");
  row.allowed = {"a", "b"};
  EXPECT_EQ(allowed_text(row), "one of \"a\", \"b\"");
}

TEST(Option, AcceptsItsOwnTypeWithinItsBoundsOnly) {
  OptionRow row = integer("k", 1);
  row.at_least = 1;
  row.or_word = "auto";
  EXPECT_EQ(problem_of(row, std::int64_t{1}), "none");
  EXPECT_EQ(problem_of(row, std::string("auto")), "none");
  for (const OptionValue& bad :
       {OptionValue(std::int64_t{0}), OptionValue(1.0), OptionValue(true), OptionValue(std::string("1"))})
    EXPECT_EQ(problem_of(row, bad), "must be an integer, at least 1, or \"auto\"") << to_text(bad);
}

TEST(Option, AcceptsIntegersAsFloatsAndRefusesNonFiniteOnes) {
  OptionRow row;
  row.type = OptionType::number;
  std::string problem;
  EXPECT_EQ(check_value(row, std::int64_t{2}, problem), OptionValue(2.0));
  EXPECT_EQ(problem_of(row, std::stod("nan")), "must be finite: a number");
  EXPECT_EQ(problem_of(row, std::stod("inf")), "must be finite: a number");
}

TEST(Option, WritesValuesAsTomlDoes) {
  EXPECT_EQ(to_text(true), "true");
  EXPECT_EQ(to_text(std::int64_t{-3}), "-3");
  EXPECT_EQ(to_text(2.0), "2.0");
  EXPECT_EQ(to_text(0.1), "0.1");
  EXPECT_EQ(to_text(1e30), "1e+30");
  EXPECT_EQ(to_text(std::string("a\"b\\c\n\x01")), R"("a\"b\\c\n\u0001")");
}

OptionMap defaults_of(const std::string& name) {
  OptionMap options;
  const Catalog catalog = Catalog::built_in();
  for (const OptionRow& row : catalog.find_hook(name)->options) options[row.name] = row.default_value;
  return options;
}

TEST(OptionRules, RequireStatefulPowerSgdToStartAfterTheFirstStep) {
  for (const std::string name : {"power_sgd", "batched_power_sgd"}) {
    OptionMap options = defaults_of(name);
    EXPECT_EQ(check_options(name, options), std::nullopt);
    options["start_powerSGD_iter"] = std::int64_t{2};
    EXPECT_EQ(check_options(name, options), std::nullopt);
    options["start_powerSGD_iter"] = std::int64_t{1};
    const std::string message =
        "start_powerSGD_iter must be at least 2 with error feedback or warm start: DDP rebuilds its buckets "
        "after the "
        "first step";
    EXPECT_EQ(check_options(name, options), message);
    EXPECT_EQ(find_conflict(name, options)->option, "start_powerSGD_iter");
    options["use_error_feedback"] = false;
    EXPECT_EQ(check_options(name, options), message);
    options["warm_start"] = false;
    EXPECT_EQ(check_options(name, options), std::nullopt);
    options["use_error_feedback"] = true;
    EXPECT_EQ(check_options(name, options), message);
  }
  EXPECT_EQ(check_options("allreduce", {}), std::nullopt);
}

}  // namespace
}  // namespace hookline
