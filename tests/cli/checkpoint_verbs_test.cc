// `hookline checkpoint`: its output for intact and damaged checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/tensor_file.h"
#include "cli/run_hookline.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ProcessResult;
using testing::Sandbox;

/// Saves a checkpoint with one tensor of two numbers.
void save(const fs::path& folder, std::int64_t step) {
  begin_part(folder);
  Manifest manifest{step, 2, "no hook", "2026-01-31T12:00:00Z", "0.1.0", {}};
  const std::string bytes = header_bytes({}, {{"weight", "F32", {2, 1}, 0, 8}}) + std::string(8, '\0');
  manifest.files.push_back(write_durably(part_of(folder) / "model.safetensors", bytes));
  commit_part(folder, manifest);
}

TEST(CheckpointInspect, ShowsWhatIsThere) {
  const Sandbox sandbox;
  save(sandbox.folder.path() / "checkpoints" / checkpoint_name(10), 10);
  save(sandbox.folder.path() / "checkpoints" / checkpoint_name(20), 20);
  const ProcessResult one = sandbox.run({"checkpoint", "inspect", "checkpoints/step_00000010", "--tensors"});
  EXPECT_EQ(one.out,
            "checkpoints/step_00000010\n"
            "  step   10\n"
            "  saved  2026-01-31 12:00:00 UTC by 2 ranks, hookline 0.1.0\n"
            "  hook   no hook\n"
            "  files  1, 80 B\n"
            "    model.safetensors  1 tensor      80 B\n"
            "      weight  F32 [2, 1]\n");
  EXPECT_EQ(one.exit_code, 0);
  const ProcessResult all = sandbox.run({"checkpoint", "inspect", "checkpoints", "--json"});
  EXPECT_EQ(all.exit_code, 0);
  const auto json = nlohmann::json::parse(all.out);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["folder"], "checkpoints/step_00000020");
  EXPECT_EQ(json[0]["step"], 20);
  EXPECT_EQ(json[1]["files"][0]["bytes"], 80);
  EXPECT_EQ(nlohmann::json::parse(sandbox.run({"checkpoint", "inspect", "checkpoints", "--json", "--tensors"})
                                      .out)[0]["files"][0]["tensors"][0]["shape"],
            (std::vector<int>{2, 1}));
}

TEST(CheckpointInspect, PrintsJsonForAFolderNameThatIsNotUtf8) {
  const Sandbox sandbox;
  save(sandbox.folder.path() / "check\xffpoints" / checkpoint_name(10), 10);
  const ProcessResult result = sandbox.run({"checkpoint", "inspect", "check\xffpoints", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)[0]["folder"], "check\uFFFDpoints/step_00000010");
}

TEST(CheckpointVerify, NamesDamagedFiles) {
  const Sandbox sandbox;
  const fs::path folder = sandbox.folder.path() / "checkpoints";
  save(folder / checkpoint_name(10), 10);
  save(folder / checkpoint_name(20), 20);
  ProcessResult result = sandbox.run({"checkpoint", "verify", "checkpoints"});
  EXPECT_EQ(
      result.out,
      "checkpoints/step_00000020: good (1 file, 80 B)\ncheckpoints/step_00000010: good (1 file, 80 B)\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.exit_code, 0);

  fs::resize_file(folder / "step_00000020/model.safetensors", 72);
  result = sandbox.run({"checkpoint", "verify", "checkpoints"});
  EXPECT_EQ(result.out, "checkpoints/step_00000010: good (1 file, 80 B)\n");
  EXPECT_EQ(result.err,
            "hookline: error: 'checkpoints/step_00000020/model.safetensors' has 72 bytes where 80 bytes were "
            "written\n");
  EXPECT_EQ(result.exit_code, 1);
  result = sandbox.run({"checkpoint", "inspect", "checkpoints/step_00000020"});
  EXPECT_THAT(result.err, HasSubstr("the bytes of 'weight' are not where"));
  EXPECT_EQ(result.exit_code, 1);

  sandbox.folder.write("checkpoints/step_00000010/manifest.json", "{");
  result = sandbox.run({"checkpoint", "verify", "checkpoints/step_00000010"});
  EXPECT_THAT(result.err,
              HasSubstr("hookline: error: 'checkpoints/step_00000010/manifest.json' is damaged: "));
  EXPECT_EQ(result.exit_code, 1);
}

TEST(CheckpointVerify, ReportsAFolderWithoutCheckpoints) {
  const Sandbox sandbox;
  fs::create_directory(sandbox.folder.path() / "empty");
  ProcessResult result = sandbox.run({"checkpoint", "verify", "empty"});
  EXPECT_EQ(result.err,
            "hookline: error: 'empty' is not a checkpoint, and holds none: it has neither manifest.json nor "
            "folders such as "
            "step_00000100\n  see: hookline checkpoint verify --help\n");
  EXPECT_EQ(result.exit_code, 2);
  result = sandbox.run({"checkpoint", "inspect", "no/such"});
  EXPECT_EQ(result.err,
            "hookline: error: there is no folder 'no/such'\n  see: hookline checkpoint inspect --help\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(sandbox.run({"checkpoint", "verify"}).exit_code, 2);
}

TEST(Launch, RefusesToMixTheCheckpointsOfTwoRuns) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 0\n");
  save(sandbox.folder.path() / "mine" / checkpoint_name(10), 10);
  sandbox.folder.write("run.toml", "[training]\ncheckpoint_every_steps = 5\ncheckpoint_dir = \"mine\"\n");
  ProcessResult result = sandbox.run({"launch", "--config", "run.toml", "./train"});
  EXPECT_EQ(result.err,
            "hookline: error: checkpoint_dir 'mine' holds checkpoints of an earlier run (step_00000010): set "
            "resume = "
            "\"auto\" in [training] to resume from the newest, or name another folder\n"
            "  checkpoint_dir: from file run.toml:3:1\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_FALSE(sandbox.has("hookline-runs"));
  for (const std::string resume : {"auto", "mine/step_00000010"}) {
    result = sandbox.run({"launch", "--config", "run.toml", "--set", "training.resume=" + resume, "./train"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

}  // namespace
}  // namespace hookline
