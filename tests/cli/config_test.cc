// `hookline config`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;

TEST(ConfigValidate, SaysOkForEachValidFile) {
  const Sandbox sandbox;
  sandbox.folder.write("a.toml", "[ddp]\ncomm_hook = \"fp16\"\n");
  sandbox.folder.write("b.toml", "[launch]\nprocesses_per_node = 2\n");
  const ProcessResult result = sandbox.run({"config", "validate", "a.toml", "b.toml"});
  EXPECT_EQ(result.out, "a.toml: ok\nb.toml: ok\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.exit_code, 0);
}

TEST(ConfigValidate, ReportsEveryFileBeforeItFails) {
  const Sandbox sandbox;
  sandbox.folder.write("bad.toml", "[ddp]\ncomm_hok = \"fp16\"\n[launch]\nprocesses_per_node = 0\n");
  sandbox.folder.write("good.toml", "[ddp]\ncomm_hook = \"fp16\"\n");
  const ProcessResult result = sandbox.run({"config", "validate", "bad.toml", "missing.toml", "good.toml"});
  EXPECT_EQ(result.out, "good.toml: ok\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("bad.toml:2:1: error: unknown key 'comm_hok' in [ddp]\n"),
                                HasSubstr("bad.toml:4:"), HasSubstr("missing.toml: error: ")));
  EXPECT_EQ(result.exit_code, 2);
}

TEST(ConfigValidate, IgnoresTheEnvironment) {
  const Sandbox sandbox;
  sandbox.folder.write("a.toml", "[ddp]\ncomm_hook = \"fp16\"\n");
  ProcessOptions options = sandbox.options({"config", "validate", "a.toml"});
  options.environment["HOOKLINE_DDP__COMM_HOOK"] = "nonsense";
  EXPECT_EQ(testing::run_process(HOOKLINE_BINARY, options).exit_code, 0);
}

TEST(ConfigValidate, KnowsTheHooksOfAProgram) {
  const Sandbox sandbox;
  sandbox.folder.write("a.toml",
                       "[ddp]\ncomm_hook = \"sample_hook\"\n[ddp.comm_state_option]\nmax_norm = 3\n");
  const ProcessResult without = sandbox.run({"config", "validate", "a.toml"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err,
              ::testing::EndsWith(
                  "\nif your program registers that hook: hookline config validate a.toml --program PROG\n"));
  const ProcessResult result = sandbox.run({"config", "validate", "--program", PROGRAM_WITH_HOOK, "a.toml"});
  EXPECT_EQ(result.out, "a.toml: ok\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(ConfigShow, SaysWhereEachValueComesFrom) {
  const Sandbox sandbox;
  sandbox.folder.write("run.toml", "[ddp]\ncomm_hook = \"fp16\"\nstatic_graph = true\n");
  ProcessOptions options =
      sandbox.options({"config", "show", "run.toml", "--json", "--set", "training.max_steps=7"});
  options.environment["HOOKLINE_DDP__STATIC_GRAPH"] = "false";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["ddp"]["comm_hook"]["value"], "fp16");
  EXPECT_THAT(document["ddp"]["comm_hook"]["where"].get<std::string>(), HasSubstr("run.toml:2:"));
  EXPECT_EQ(document["ddp"]["static_graph"]["value"], false);
  EXPECT_EQ(document["ddp"]["static_graph"]["where"], "HOOKLINE_DDP__STATIC_GRAPH");
  EXPECT_EQ(document["training"]["max_steps"]["value"], 7);
  EXPECT_EQ(document["training"]["max_steps"]["where"], "--set training.max_steps");
  EXPECT_EQ(document["ddp"]["bucket_cap_mb"]["origin"], "default");
}

TEST(ConfigShow, PrintsTomlByDefault) {
  const ProcessResult result = Sandbox().run({"config", "show", "--set", "ddp.comm_hook=bf16"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[ddp]\n"), HasSubstr("comm_hook = \"bf16\""),
                                HasSubstr("--set ddp.comm_hook")));
}

TEST(ConfigShow, ReportsAnUnknownKey) {
  const ProcessResult result = Sandbox().run({"config", "show", "--set", "ddp.comm_hok=fp16"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("comm_hok"));
}

}  // namespace
}  // namespace hookline
