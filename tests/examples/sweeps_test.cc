// Checks that the files of examples/sweep are valid. Running them would take minutes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/process.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::ProcessOptions;
using testing::ProcessResult;

/// Runs in a folder that links the build as a checkout does.
class ExampleSweeps : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory_symlink(BUILD_FOLDER, folder.path() / "build"); }

  ProcessResult plan_of(const std::string& name) const {
    ProcessOptions options;
    options.folder = folder.path();
    options.arguments = {"sweep", std::string(SWEEP_FOLDER) + "/" + name, "--dry-run"};
    return testing::run_process(HOOKLINE_BINARY, options);
  }

  const testing::TemporaryFolder folder;
};

TEST_F(ExampleSweeps, TryEveryHookWithEveryWrapper) {
  const std::string impossible = "hookline: warning: 6 combinations can't run, and are left out\n";
  for (const auto& [name, trials] :
       {std::pair{"digits.toml", "\n63 trials\n"}, {"charlm.toml", "\n42 trials\n"}}) {
    const ProcessResult result = plan_of(name);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, ::testing::EndsWith(trials));
    EXPECT_THAT(result.err, HasSubstr(impossible));
    for (const char* hook : {"no", "noop", "allreduce", "fp16", "bf16", "power_sgd", "batched_power_sgd"})
      EXPECT_THAT(result.out, HasSubstr("  comm_hook=" + std::string(hook) + " ")) << name;
  }
}

TEST_F(ExampleSweeps, PrintTheirUsage) {
  ProcessOptions options;
  options.arguments = {"letters"};
  const ProcessResult result = testing::run_process(SWEEP_FOLDER "/links.sh", options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, ::testing::MatchesRegex("usage: .*/links.sh .digits.charlm.\n"));
}

}  // namespace
}  // namespace hookline
