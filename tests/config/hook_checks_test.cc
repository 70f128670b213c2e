#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HookChoice : public ::testing::Test {
 private:
  TempFolder folder_;
};

std::string ddp(const std::string& lines) { return "[ddp]\n" + lines; }

TEST_F(HookChoice, ResolvesAliasesAndFillsInDefaults) {
  const Resolution resolution =
      resolve_text(ddp("comm_hook = \"powerSGD\"\ncomm_state_option.min_compression_rate = 3\n"));
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.ddp.comm_hook, "power_sgd");
  const OptionMap& options = resolution.config.ddp.comm_state_option;
  EXPECT_EQ(options.size(), 9U);
  EXPECT_EQ(options.at("min_compression_rate"), OptionValue(3.0));
  EXPECT_EQ(options.at("start_powerSGD_iter"), OptionValue(std::int64_t{1000}));
  EXPECT_EQ(resolution.config.origins.at("ddp.comm_state_option.min_compression_rate").where,
            "run.toml:3:19");
  EXPECT_EQ(resolution.config.origins.at("ddp.comm_state_option.warm_start").kind, OriginKind::default_value);
}

TEST_F(HookChoice, SuggestsTheNearestHookAndChecksItsOptions) {
  EXPECT_THAT(
      report_of(ddp("comm_hook = \"power_sdg\"\ncomm_state_option.warm_stat = true\n")),
      AllOf(StartsWith(
                "run.toml:2:13: error: unknown hook \"power_sdg\"\n"
                "  2 | comm_hook = \"power_sdg\"\n"
                "    |             ^~~~~~~~~~~ must be one of \"no\", \"allreduce\", \"fp16\", \"bf16\", "
                "\"power_sgd\", \"batched_power_sgd\", \"noop\", \"auto\"; did you mean "
                "\"power_sgd\"?\n"
                "run.toml:3:19: error: unknown key 'warm_stat' in [ddp.comm_state_option]\n"),
            EndsWith(" did you mean 'warm_start'?\n")));
}

TEST_F(HookChoice, RefusesValuesThatAreNotStrings) {
  EXPECT_EQ(report_of(ddp("comm_hook = true\ncomm_wrapper = 16\n")),
            "run.toml:2:13: error: bad value true for 'comm_hook' in [ddp]\n"
            "  2 | comm_hook = true\n"
            "    |             ^~~~ must be one of \"no\", \"allreduce\", \"fp16\", \"bf16\", \"power_sgd\", "
            "\"batched_power_sgd\", \"noop\", \"auto\"\n"
            "run.toml:3:16: error: bad value 16 for 'comm_wrapper' in [ddp]\n"
            "  3 | comm_wrapper = 16\n"
            "    |                ^~ must be one of \"no\", \"fp16\", \"bf16\"\n");
}

TEST_F(HookChoice, RefusesAHookAsAWrapper) {
  EXPECT_EQ(report_of(ddp("comm_wrapper = \"powerSGD\"\n")),
            "run.toml:2:16: error: \"powerSGD\" is a hook, not a wrapper\n"
            "  2 | comm_wrapper = \"powerSGD\"\n"
            "    |                ^~~~~~~~~~ set comm_hook = \"power_sgd\"; comm_wrapper must be one of "
            "\"no\", \"fp16\", "
            "\"bf16\"\n");
}

TEST_F(HookChoice, NamesTheNearestWrapper) {
  EXPECT_EQ(
      report_of(ddp("comm_wrapper = \"fp-16\"\n")),
      "run.toml:2:16: error: unknown wrapper \"fp-16\"\n"
      "  2 | comm_wrapper = \"fp-16\"\n"
      "    |                ^~~~~~~ must be one of \"no\", \"fp16\", \"bf16\"; did you mean \"fp16\"?\n");
}

TEST_F(HookChoice, DoesNotCheckAnotherSourcesOptionsAgainstAGuess) {
  EXPECT_EQ(
      report_of("[ddp.comm_state_option]\nmatrix_approximation_rank = 2\n", {}, {{"ddp.comm_hook", "fp17"}}),
      "--set ddp.comm_hook: error: unknown hook \"fp17\"\n"
      "  must be one of \"no\", \"allreduce\", \"fp16\", \"bf16\", \"power_sgd\", \"batched_power_sgd\", "
      "\"noop\", \"auto\"; did you mean \"fp16\"?\n");
}

TEST_F(HookChoice, RefusesHalfPrecisionInsideHalfPrecision) {
  EXPECT_EQ(
      report_of(ddp("comm_wrapper = \"bf16\"\ncomm_hook = \"fp16\"\n")),
      "run.toml:2:16: error: comm_wrapper \"bf16\" over comm_hook \"fp16\" would cast the gradients twice\n"
      "  2 | comm_wrapper = \"bf16\"\n"
      "    |                ^~~~~~ fp16 sends half precision by itself: leave one of the two out\n");
  EXPECT_THAT(report_of(ddp("comm_wrapper = \"bf16\"\n"), {}, {{"ddp.comm_hook", "fp16"}}),
              AllOf(StartsWith("--set ddp.comm_hook: error: comm_wrapper \"bf16\" over comm_hook \"fp16\" "),
                    EndsWith("; comm_wrapper is set at run.toml:2:1\n")));
}

TEST_F(HookChoice, RefusesToWrapWhatDoesNotAverage) {
  EXPECT_EQ(
      report_of(ddp("comm_hook = \"noop\"\ncomm_wrapper = \"bf16\"\n")),
      "run.toml:3:16: error: comm_wrapper \"bf16\" over comm_hook \"noop\" would only round the gradients\n"
      "  3 | comm_wrapper = \"bf16\"\n"
      "    |                ^~~~~~ noop does not average them: leave the wrapper out\n");
}

TEST_F(HookChoice, RefusesToWrapAHookThatForbidsIt) {
  Catalog catalog = Catalog::built_in();
  catalog.add(hook_row_from_json(R"({"name": "sign", "summary": "Sends signs.", "wrappable": false})"));
  EXPECT_EQ(resolve_text(ddp("comm_hook = \"sign\"\ncomm_wrapper = \"fp16\"\n"), {}, {}, catalog).report(),
            "run.toml:3:16: error: comm_wrapper \"fp16\" over comm_hook \"sign\" does not work\n"
            "  3 | comm_wrapper = \"fp16\"\n"
            "    |                ^~~~~~ sign needs the gradients as they are: leave the wrapper out\n");
}

TEST_F(HookChoice, WrapsAllreduceWhenOnlyAWrapperIsGiven) {
  const Resolution resolution = resolve_text(ddp("comm_wrapper = \"fp16\"\n"));
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.ddp.comm_hook, "no");
  EXPECT_EQ(resolution.config.ddp.comm_wrapper, "fp16");
}

TEST_F(HookChoice, RequiresPowerSgdToStartAfterTheFirstStep) {
  const std::string start = "comm_hook = \"power_sgd\"\ncomm_state_option.start_powerSGD_iter = 1\n";
  EXPECT_THAT(report_of(ddp(start)),
              AllOf(StartsWith("run.toml:3:41: error: start_powerSGD_iter must be at least 2 "),
                    HasSubstr("\n  3 | comm_state_option.start_powerSGD_iter = 1\n"
                              "    |                                         ^ DDP rebuilds its buckets ")));
  EXPECT_EQ(
      report_of(ddp(start +
                    "comm_state_option.warm_start = false\ncomm_state_option.use_error_feedback = false\n")),
      "");
}

TEST_F(HookChoice, WarnsOfOptionsForAHookWithoutAny) {
  const Resolution resolution = resolve_text(
      ddp("comm_hook = \"fp16\"\n[ddp.comm_state_option]\nmatrix_approximation_rank = 2\nfoo = 1\n"));
  EXPECT_TRUE(resolution.ok());
  EXPECT_TRUE(resolution.config.ddp.comm_state_option.empty());
  EXPECT_EQ(
      resolution.report(),
      "run.toml:4:1: warning: 'matrix_approximation_rank' has no effect\n"
      "  4 | matrix_approximation_rank = 2\n"
      "    | ^~~~~~~~~~~~~~~~~~~~~~~~~ comm_hook \"fp16\" has no options; it is an option of power_sgd\n"
      "run.toml:5:1: warning: 'foo' has no effect\n"
      "  5 | foo = 1\n"
      "    | ^~~ comm_hook \"fp16\" has no options\n");
}

TEST_F(HookChoice, WarnsOfOptionsOfAnOverriddenHook) {
  const std::string file =
      ddp("comm_hook = \"power_sgd\"\ncomm_state_option.matrix_approximation_rank = 2\n"
          "comm_state_option.min_compression_rate = 4\n");
  const Resolution resolution = resolve_text(file, {}, {{"ddp.comm_hook", "batched_power_sgd"}});
  EXPECT_TRUE(resolution.ok());
  EXPECT_EQ(resolution.config.ddp.comm_state_option.at("matrix_approximation_rank"),
            OptionValue(std::int64_t{2}));
  EXPECT_EQ(resolution.report(),
            "run.toml:4:19: warning: 'min_compression_rate' has no effect\n"
            "  4 | comm_state_option.min_compression_rate = 4\n"
            "    |                   ^~~~~~~~~~~~~~~~~~~~ it is an option of power_sgd, and --set "
            "ddp.comm_hook chose "
            "batched_power_sgd\n");
}

TEST_F(HookChoice, WarnsWhenPowerSgdWouldNeverStart) {
  const std::string training = "[training]\nmax_steps = 100\n";
  EXPECT_EQ(report_of(ddp("comm_hook = \"power_sgd\"\n" + training)),
            "run.toml:2:13: warning: power_sgd would never start\n"
            "  2 | comm_hook = \"power_sgd\"\n"
            "    |             ^~~~~~~~~~~ start_powerSGD_iter is 1000 and max_steps 100: no step is left to "
            "compress\n");
  const std::string start = "comm_hook = \"power_sgd\"\ncomm_state_option.start_powerSGD_iter = ";
  EXPECT_EQ(report_of(ddp(start + "100\n" + training)),
            "run.toml:3:19: warning: power_sgd would never start\n"
            "  3 | comm_state_option.start_powerSGD_iter = 100\n"
            "    |                   ^~~~~~~~~~~~~~~~~~~ start_powerSGD_iter is 100 and max_steps 100: no "
            "step is left to "
            "compress\n");
  EXPECT_EQ(report_of(ddp(start + "99\n" + training)), "");
}

TEST_F(HookChoice, WarnsOfAcceleratesKeysWithoutEffect) {
  const Resolution resolution = resolve_text(ddp("dim = 1\ncheck_reduction = true\n"));
  EXPECT_TRUE(resolution.ok());
  EXPECT_EQ(resolution.report(),
            "run.toml:2:1: warning: 'dim' has no effect\n"
            "  2 | dim = 1\n"
            "    | ^~~ it is there for Accelerate's sake; hookline, like PyTorch, ignores it\n"
            "run.toml:3:1: warning: 'check_reduction' has no effect\n"
            "  3 | check_reduction = true\n"
            "    | ^~~~~~~~~~~~~~~ it is there for Accelerate's sake; hookline, like PyTorch, ignores it\n");
}

TEST_F(HookChoice, ChecksTheScopeOfAHook) {
  EXPECT_EQ(report_of(ddp("comm_hook = \"fp16\"\ncomm_scope = \"between_hosts\"\n")), "");
  EXPECT_EQ(report_of(ddp("comm_scope = \"between_hosts\"\n")),
            "run.toml:2:1: warning: 'comm_scope' has no effect\n"
            "  2 | comm_scope = \"between_hosts\"\n"
            "    | ^~~~~~~~~~ it is the scope of a hook, and no hook is set: set comm_hook\n");
  EXPECT_EQ(
      report_of(ddp("comm_hook = \"fp16\"\ncomm_scope = \"between_hosts\"\n[launch]\nbackend = \"gloo\"\n")),
      "run.toml:3:14: error: comm_scope \"between_hosts\" does not work with backend \"gloo\"\n"
      "  3 | comm_scope = \"between_hosts\"\n"
      "    |              ^~~~~~~~~~~~~~~ the ranks of a host average through memory that they share: set "
      "backend = \"auto\"; launch.backend is set at run.toml:5:1\n");
  EXPECT_THAT(
      report_of(ddp("comm_hook = \"fp16\"\ncomm_scope = \"between_hosts\"\n[launch]\ndevice = \"cuda\"\n")),
      AllOf(StartsWith(
                "run.toml:3:14: error: comm_scope \"between_hosts\" does not work with device \"cuda\"\n"),
            EndsWith(": set device = \"cpu\"; launch.device is set at run.toml:5:1\n")));
}

TEST_F(HookChoice, ReportsNothingAboutOptionsWhenTheHookCouldNotBeRead) {
  EXPECT_EQ(report_of(ddp("comm_hook = power_sgd\ncomm_state_option.warm_start = true\n")),
            "run.toml:2:13: error: 'power_sgd' is not a TOML value\n"
            "  2 | comm_hook = power_sgd\n"
            "    |             ^~~~~~~~~ a string needs quotes: \"power_sgd\"\n");
}

TEST_F(HookChoice, FindsTheHookOfAProgramWithAndWithoutItsPrefix) {
  for (const std::string name : {"clip", "program:clip"}) {
    const Resolution resolution =
        resolve_text(ddp("comm_hook = \"" + name + "\"\ncomm_state_option.max_norm = 2\n"), {}, {},
                     catalog_with_program_hook());
    EXPECT_EQ(resolution.report(), "");
    EXPECT_EQ(resolution.config.ddp.comm_hook, "clip");
    EXPECT_EQ(resolution.config.ddp.comm_state_option.at("max_norm"), OptionValue(2.0));
    EXPECT_EQ(resolution.config.ddp.comm_state_option.at("label"), OptionValue(std::string("a")));
  }
}

TEST_F(HookChoice, LeavesTheHookOfAScriptAndItsOptionsToTheRank) {
  const Resolution resolution =
      resolve_text(ddp("comm_hook = \"program:mine\"\ncomm_wrapper = \"fp16\"\n[ddp.comm_state_option]\n"
                       "Rate = 2\nscale = 2.0\non = true\nname = \"x\"\n"),
                   {{"HOOKLINE_DDP__COMM_STATE_OPTION__EXTRA", "1.5"}},
                   {{"ddp.comm_state_option.Mode", "fast"}, {"ddp.comm_state_option.on", "false"}},
                   Catalog::built_in(), true);
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.ddp.comm_hook, "program:mine");
  const OptionMap expected = {{"Rate", std::int64_t{2}},  {"scale", 2.0}, {"on", false},
                              {"name", std::string("x")}, {"extra", 1.5}, {"Mode", std::string("fast")}};
  EXPECT_EQ(resolution.config.ddp.comm_state_option, expected);
}

TEST_F(HookChoice, RefusesArraysAsOptionsOfAScriptsHook) {
  EXPECT_EQ(resolve_text(ddp("comm_hook = \"program:mine\"\ncomm_state_option.list = [1]\n"), {}, {},
                         Catalog::built_in(), true)
                .report(),
            "run.toml:3:26: error: bad value for 'list' in [ddp.comm_state_option]: an array\n"
            "  3 | comm_state_option.list = [1]\n"
            "    |                          ^~~ must be true or false, a number or a string\n");
}

TEST_F(HookChoice, RefusesAHookThatTheProgramDoesNotRegister) {
  EXPECT_EQ(resolve_text(ddp("comm_hook = \"program:clop\"\n"), {}, {}, catalog_with_program_hook()).report(),
            "run.toml:2:13: error: the program has no hook 'clop'\n"
            "  2 | comm_hook = \"program:clop\"\n"
            "    |             ^~~~~~~~~~~~~~ must be one of \"no\", \"allreduce\", \"fp16\", \"bf16\", "
            "\"power_sgd\", "
            "\"batched_power_sgd\", \"noop\", \"clip\"; did you mean \"clip\"?\n");
}

TEST_F(HookChoice, MentionsProgramHooksIfTheProgramMayHaveSome) {
  EXPECT_EQ(
      resolve_text(ddp("comm_hook = \"mine\"\n"), {}, {}, Catalog::built_in(), true).report(),
      "run.toml:2:13: error: unknown hook \"mine\"\n"
      "  2 | comm_hook = \"mine\"\n"
      "    |             ^~~~~~ must be one of \"no\", \"allreduce\", \"fp16\", \"bf16\", \"power_sgd\", "
      "\"batched_power_sgd\", \"noop\", \"auto\", or \"program:NAME\" for a hook that the program registers, "
      "or "
      "a hook of a shared library in [ddp] plugins\n");
}

}  // namespace
}  // namespace hookline
