// What `hookline env` tells of a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;

nlohmann::json env_of(const ProcessOptions& options) {
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return nlohmann::json::parse(result.out);
}

TEST(Env, TellsWhatABugReportNeeds) {
  const Sandbox sandbox;
  const auto facts = env_of(sandbox.options({"env", "--json"}));
  EXPECT_EQ(facts["hookline"]["version"], HOOKLINE_VERSION);
  EXPECT_THAT(facts["hookline"]["program"].get<std::string>(), HasSubstr("hookline"));
  char name[256] = "";
  ASSERT_EQ(gethostname(name, sizeof name), 0);
  EXPECT_EQ(facts["system"]["host"], name);
  EXPECT_THAT(facts["system"]["kernel"].get<std::string>(), StartsWith("Linux "));
  EXPECT_THAT(facts["system"]["C library"].get<std::string>(), StartsWith("glibc 2."));
  EXPECT_GE(facts["machine"]["logical processors that may be used"], 1);
  EXPECT_GE(facts["machine"]["cores"], 1);
  EXPECT_THAT(facts["machine"]["memory"].get<std::string>(), HasSubstr(" GiB, "));
  EXPECT_THAT(facts["network"]["lo"].get<std::string>(), HasSubstr("speed unknown, MTU 65536, 127.0.0.1"));
  EXPECT_FALSE(facts["limits"]["open files"].get<std::string>().empty());
  EXPECT_TRUE(facts.contains("libtorch") && facts.contains("GPUs"));
  EXPECT_EQ(facts["config"]["file"], "none");
  EXPECT_TRUE(facts["config"]["values"].empty());
}

TEST(Env, ShowsVariablesThatRanksHeedAndNoOthers) {
  const Sandbox sandbox;
  ProcessOptions options = sandbox.options({"env", "--json"});
  options.environment["NCCL_DEBUG"] = "INFO";
  options.environment["AWS_SECRET_ACCESS_KEY"] = "hidden";
  options.environment["HOOKLINE_DDP__COMM_HOOK"] = "fp16";
  const auto facts = env_of(options);
  EXPECT_EQ(facts["variables"]["NCCL_DEBUG"], "INFO");
  EXPECT_THAT(facts.dump(), Not(HasSubstr("hidden")));
  EXPECT_EQ(facts["config"]["values"]["ddp.comm_hook"],
            "\"fp16\"  # from environment HOOKLINE_DDP__COMM_HOOK");
}

TEST(Env, ShowsTheConfigThatALaunchWouldRead) {
  const Sandbox sandbox;
  sandbox.folder.write("hookline.toml", "[launch]\nprocesses_per_node = 4\n");
  ProcessResult result = sandbox.run({"env"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\nconfig:\n  file: hookline.toml\n  values:\n"),
                    HasSubstr("    launch.processes_per_node: 4  # from file hookline.toml:2:1\n")));
  // A report of a broken config is a report all the same.
  sandbox.folder.write("hookline.toml", "[launch]\nprocesses_per_node = 0\n");
  result = sandbox.run({"env"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.out,
      HasSubstr("  problems: hookline.toml:2:22: error: bad value 0 for 'processes_per_node' in [launch]\n"
                "      2 | processes_per_node = 0\n"));
}

}  // namespace
}  // namespace hookline
