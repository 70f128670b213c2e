// Records and replays gradients through the command line, as a user does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/ddp/gradient_recorder.h"
#include "parallel/tensors/safetensors.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

ProcessResult hookline_in(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  ProcessOptions options;
  options.arguments = std::move(arguments);
  options.folder = folder.path();
  options.environment = {{"OMP_NUM_THREADS", "1"}};
  return testing::run_process(HOOKLINE_BINARY, options);
}

NamedTensors gradients_of(int step, int rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + rank));
  return {{"a.weight", torch::randn({40, 30}, generator)},
          {"b.weight", torch::randn({50, 64}, generator)},
          {"b.bias", torch::randn({50}, generator)},
          {"scale", torch::randn({}, generator)}};
}

void write_recording(const TemporaryFolder& folder, int steps, int ranks) {
  std::filesystem::create_directory(folder.path() / "in");
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank)
      write_safetensors(folder.path() / "in" / gradient_file_name(step, rank), gradients_of(step, rank));
  }
}

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(ReplayRun, EscapesTheNameOfATensorInItsError) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "in");
  for (const auto& [step, name] : {std::pair(0, "a\x1b]0;title\x07"), {1, "b"}})
    write_safetensors(folder.path() / "in" / gradient_file_name(step, 0), {{name, torch::ones({3})}});
  const ProcessResult result = hookline_in(folder, {"replay", "--input", "in", "--output", "out"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hookline replay: error: 'in/step0001.rank0.safetensors' lacks "
                                    "'a\\x1b]0;title\\x07', which the first step has\n"));
}

TEST(ReplayRun, WritesTheMeanAndWhatItCost) {
  const TemporaryFolder folder;
  write_recording(folder, 3, 3);
  const ProcessResult result = hookline_in(folder, {"replay", "--input", "in", "--output", "out", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u);
  for (int step = 0; step < 3; ++step) {
    const auto& line = lines[static_cast<std::size_t>(step)];
    EXPECT_EQ(line["step"], step);
    EXPECT_LT(line["relative_error"].get<double>(), 1e-6);
    EXPECT_EQ(line["bytes_sent"], 4 * (40 * 30 + 50 * 64 + 50 + 1));
    EXPECT_GT(line["milliseconds"].get<double>(), 0);
    const NamedTensors out =
        read_safetensors(folder.path() / "out" / ("step000" + std::to_string(step) + ".safetensors"));
    ASSERT_EQ(out.size(), 4u);
    for (const auto& [name, tensor] : out) {
      const at::Tensor mean =
          (gradients_of(step, 0).at(name) + gradients_of(step, 1).at(name) + gradients_of(step, 2).at(name)) /
          3;
      EXPECT_TRUE(torch::allclose(tensor, mean, 1e-5, 1e-6)) << name;
    }
  }
}

TEST(ReplayRun, ShowsWhatAHookLosesAndSaves) {
  const TemporaryFolder folder;
  write_recording(folder, 4, 2);
  const ProcessResult result =
      hookline_in(folder, {"replay", "--input", "in", "--output", "out", "--comm-hook", "power_sgd",
                           "--comm-wrapper", "fp16", "--state-option", "matrix_approximation_rank=2",
                           "--state-option", "start_powerSGD_iter=2", "--bucket-cap-mb", "1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("power_sgd(rank=2, start=2) in fp16"));
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_LT(lines[1]["relative_error"].get<double>(), 2e-3);
  EXPECT_EQ(lines[1]["bytes_sent"], 2 * 4451);
  EXPECT_GT(lines[2]["relative_error"].get<double>(), 0.5) << "noise has no low rank";
  EXPECT_EQ(lines[2]["bytes_sent"], 2 * (2 * (40 + 30) + 2 * (50 + 64) + 50 + 1));
}

TEST(ReplayRun, SendsAsManyBytesAsEstimateSays) {
  const TemporaryFolder folder;
  write_recording(folder, 4, 2);
  const ProcessResult estimate =
      hookline_in(folder, {"estimate", "--json", "--shape", "40x30", "--shape", "50x64", "--shape", "50",
                           "--shape", "1", "--set", "ddp.comm_hook=power_sgd", "--set",
                           "ddp.comm_state_option.matrix_approximation_rank=2"});
  ASSERT_EQ(estimate.exit_code, 0) << estimate.err;
  for (const auto& hook : nlohmann::json::parse(estimate.out)["hooks"]) {
    const std::string name = hook["hook"];
    std::vector<std::string> arguments = {"replay",      "--input", "in",          "--output",
                                          "out-" + name, "--json",  "--comm-hook", name};
    if (name == "power_sgd")
      arguments.insert(arguments.end(), {"--state-option", "matrix_approximation_rank=2"});
    if (name.ends_with("power_sgd"))
      arguments.insert(arguments.end(), {"--state-option", "start_powerSGD_iter=2"});
    const ProcessResult result = hookline_in(folder, arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(lines_of(result.out).back()["bytes_sent"], hook["bytes"]) << name;
  }
}

TEST(ReplayRun, PrintsATableWithoutJson) {
  const TemporaryFolder folder;
  write_recording(folder, 2, 1);
  const ProcessResult result =
      hookline_in(folder, {"replay", "--input", "in", "--output", "out", "--comm-hook", "noop"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::MatchesRegex("  step relative error     bytes sent           ms\n"
                                                  "     0      0.000e\\+00              0 +[0-9.]+\n"
                                                  "     1      0.000e\\+00              0 +[0-9.]+\n"));
}

TEST(ReplayRun, NamesTheFileThatDiffers) {
  const TemporaryFolder folder;
  write_recording(folder, 2, 2);
  NamedTensors other = gradients_of(1, 0);
  other["b.bias"] = torch::zeros({7});
  write_safetensors(folder.path() / "in" / gradient_file_name(1, 0), other);
  const ProcessResult result = hookline_in(folder, {"replay", "--input", "in", "--output", "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("hookline replay: error: 'in/step0001.rank0.safetensors' holds 'b.bias' in another "
                        "shape or dtype than the first step"));
}

TEST(ReplayRun, TakesWhatARunRecords) {
  const TemporaryFolder folder;
  const ProcessResult run =
      hookline_in(folder, {"launch", "--processes-per-node", "2", "--max-steps", "5", "--set",
                           "training.record_gradients=in", "--set", "training.record_gradients_steps=3",
                           "--comm-hook", "fp16", TRAINING_PROGRAM});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const NamedTensors recorded = read_safetensors(folder.path() / "in" / gradient_file_name(2, 1));
  EXPECT_GT(recorded.size(), 2u);
  EXPECT_TRUE(recorded.begin()->first.find('.') != std::string::npos) << recorded.begin()->first;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "in" / gradient_file_name(3, 0)));
  const ProcessResult result =
      hookline_in(folder, {"replay", "--input", "in", "--output", "out", "--comm-hook", "bf16", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).size(), 3u);
}

}  // namespace
}  // namespace hookline
