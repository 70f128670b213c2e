// What `hookline env` reports about a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
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

TEST(Env, ReportsWhatABugReportNeeds) {
  const Sandbox sandbox;
  const auto facts = env_of(sandbox.options({"env", "--json"}));
  EXPECT_EQ(facts["hookline"]["version"], HOOKLINE_VERSION);
  EXPECT_THAT(facts["hookline"]["program"].get<std::string>(), HasSubstr("hookline"));
  EXPECT_EQ(facts["system"]["host"], testing::host_name());
  EXPECT_THAT(facts["system"]["kernel"].get<std::string>(), StartsWith("Linux "));
  EXPECT_THAT(facts["system"]["c_library"].get<std::string>(), StartsWith("glibc 2."));
  EXPECT_GE(facts["machine"]["usable_processors"], 1);
  EXPECT_GE(facts["machine"]["cores"], 1);
  EXPECT_EQ(facts["machine"]["memory_bytes"], std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  const auto& loopback = facts["network"]["lo"];
  EXPECT_EQ(loopback["up"], true);
  EXPECT_EQ(loopback["mbit_per_second"], "unknown");
  EXPECT_EQ(loopback["mtu"], 65536);
  EXPECT_EQ(loopback["addresses"][0], "127.0.0.1");
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(facts["limits"]["open_files"], files.rlim_cur);
  EXPECT_EQ(facts["limits"]["most_open_files"], files.rlim_max);
  EXPECT_THAT(facts["isolation"]["pid_namespace"].get<std::string>(),
              ContainsRegex("^(can be made|refused: .+)$"));
  EXPECT_THAT(facts["isolation"]["control_group_below"].get<std::string>(),
              ContainsRegex("^(/.+|none: .+)$"));
  EXPECT_TRUE(facts.contains("libtorch"));
  EXPECT_EQ(facts["gpus"]["visible"], 0);
  EXPECT_EQ(facts["config"]["file"], "none");
  EXPECT_TRUE(facts["config"]["values"].empty());
}

TEST(Env, ReportsALauncherWithoutItsHelperPrograms) {
  const Sandbox sandbox;
  std::filesystem::create_directories(sandbox.folder.path() / "bin");
  const std::filesystem::path moved = sandbox.folder.path() / "bin" / "hookline";
  std::filesystem::copy_file(HOOKLINE_BINARY, moved);
  const ProcessResult env = testing::run_process(moved, sandbox.options({"env", "--json"}));
  EXPECT_EQ(
      nlohmann::json::parse(env.out)["libtorch"],
      "none: this is the launcher alone (the Python package hookline-torch has what loads it), a checkout "
      "that was built in part only (./dev build builds the rest), or a hookline that was moved");
  const ProcessResult result = testing::run_process(moved, sandbox.options({"test"}));
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_EQ(
      result.err,
      "hookline: error: '" + (sandbox.folder.path() / "libexec/hookline/self_test_rank").string() +
          "', which tries everything on each rank, is not there: this is the launcher alone (the Python "
          "package hookline-torch has the program), a checkout that was built in part only (./dev build "
          "builds the rest), or a hookline that was moved without it\n");
}

TEST(Env, PrintsTheSameFactsAsText) {
  const Sandbox sandbox;
  const ProcessResult result = sandbox.run({"env"});
  EXPECT_THAT(result.out,
              HasSubstr("\nnetwork:\n  lo:\n    up: yes\n    mbit per second: unknown\n    mtu: 65536\n"
                        "    addresses: 127.0.0.1"));
  EXPECT_THAT(result.out, ContainsRegex("\n  usable processors: [0-9]+\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  memory: [0-9.]+ GiB\n"));
}

TEST(Env, ShowsOnlyVariablesThatAffectRanks) {
  const Sandbox sandbox;
  ProcessOptions options = sandbox.options({"env", "--json"});
  options.environment["NCCL_DEBUG"] = "INFO";
  options.environment["AWS_SECRET_ACCESS_KEY"] = "hidden";
  for (const char* const secret :
       {"SLURM_JWT", "HOOKLINE_TOKEN", "NCCL_PASSWORD", "TORCH_SECRET", "PYTORCH_KEY"})
    options.environment[secret] = "hidden";
  options.environment["HOOKLINE_DDP__COMM_HOOK"] = "fp16";
  const auto facts = env_of(options);
  EXPECT_EQ(facts["variables"]["NCCL_DEBUG"], "INFO");
  for (const char* const secret :
       {"SLURM_JWT", "HOOKLINE_TOKEN", "NCCL_PASSWORD", "TORCH_SECRET", "PYTORCH_KEY"})
    EXPECT_EQ(facts["variables"][secret], "(not shown)") << secret;
  EXPECT_FALSE(facts["variables"].contains("AWS_SECRET_ACCESS_KEY"));
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
  // A broken config is reported too, without failing.
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
