// Error messages of `hookline replay` for bad command lines and folders; nothing is replayed here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::ProcessResult;
using testing::Sandbox;

void expect_error(const Sandbox& sandbox, const std::vector<std::string>& flags, const std::string& message) {
  std::vector<std::string> arguments{"replay"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const ProcessResult result = sandbox.run(arguments);
  EXPECT_EQ(result.err, message);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_FALSE(sandbox.has("out"));
}

const std::string kSee = "\n  see: hookline replay --help\n";

TEST(Replay, NamesAFlagThatIsMissing) {
  const Sandbox sandbox;
  expect_error(sandbox, {},
               "hookline: error: --input is missing: the folder of the recorded gradients" + kSee);
  expect_error(
      sandbox, {"--input", "in"},
      "hookline: error: --output is missing: the folder for what the hook makes of the gradients" + kSee);
}

TEST(Replay, SaysWhatIsWrongWithTheFolderOfGradients) {
  const Sandbox sandbox;
  const std::vector<std::string> flags{"--input", "in", "--output", "out"};
  expect_error(sandbox, flags,
               "hookline: error: --input 'in' can't be read: No such file or directory" + kSee);
  sandbox.folder.write("in/notes.txt", "");
  sandbox.folder.write("in/step0000.safetensors", "");
  expect_error(
      sandbox, flags,
      "hookline: error: --input 'in' holds no recorded gradients, which are called "
      "step0000.rank0.safetensors; record some with: hookline launch --set training.record_gradients=DIR "
      "./train" +
          kSee);
  sandbox.folder.write("in/step0000.rank0.safetensors", "");
  sandbox.folder.write("in/step0001.rank1.safetensors", "");
  expect_error(
      sandbox, flags,
      "hookline: error: --input 'in' lacks step0000.rank1.safetensors: its steps go from 0 to 1, its ranks "
      "from 0 to 1" +
          kSee);
}

TEST(Replay, RefusesAFolderWithOtherResults) {
  const Sandbox sandbox;
  sandbox.folder.write("in/step0000.rank0.safetensors", "");
  sandbox.folder.write("out/step0003.safetensors", "");
  const ProcessResult result = sandbox.run({"replay", "--input", "in", "--output", "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(
      result.err,
      "hookline: error: --output 'out' already holds what a hook made (step0003.safetensors): name another "
      "folder, or remove those files" +
          kSee);
}

TEST(Replay, WarnsOfAHookThatStartsAfterTheLastStep) {
  const Sandbox sandbox;
  sandbox.folder.write("in/step0000.rank0.safetensors", "");
  EXPECT_THAT(sandbox.run({"replay", "--input", "in", "--output", "out", "--comm-hook", "power_sgd"}).err,
              HasSubstr("--comm-hook: warning: power_sgd would never start\n"
                        "  start_powerSGD_iter is 1000 and max_steps 1: no step is left to compress\n"));
}

TEST(Replay, RefusesHookAuto) {
  const Sandbox sandbox;
  sandbox.folder.write("in/step0000.rank0.safetensors", "");
  expect_error(
      sandbox, {"--input", "in", "--output", "out", "--comm-hook", "auto"},
      "hookline: error: a replay trains nothing that auto could measure: name a hook, with --comm-hook" +
          kSee);
}

TEST(Replay, ChecksTheHookBeforeItStartsAnything) {
  const Sandbox sandbox;
  sandbox.folder.write("in/step0000.rank0.safetensors", "");
  expect_error(
      sandbox, {"--input", "in", "--output", "out", "--comm-hook", "power_sdg"},
      "--comm-hook: error: unknown hook \"power_sdg\"\n"
      "  must be one of \"no\", \"allreduce\", \"fp16\", \"bf16\", \"power_sgd\", \"batched_power_sgd\", "
      "\"noop\", \"auto\"; did you mean \"power_sgd\"?\n");
}

}  // namespace
}  // namespace hookline
