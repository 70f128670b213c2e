// The examples as a user runs them: through the launcher, on two ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {
namespace {

using ::testing::HasSubstr;

/// Flags of the launcher, then the program and its flags.
ProcessResult launch(const TemporaryFolder& folder, const std::string& config,
                     const std::vector<std::string>& command,
                     const std::map<std::string, std::optional<std::string>>& environment = {}) {
  ProcessOptions options;
  options.arguments = {"launch", "--config", config, "--processes-per-node", "2"};
  options.arguments.insert(options.arguments.end(), command.begin(), command.end());
  options.folder = folder.path();
  options.environment = {{"OMP_NUM_THREADS", "1"}};
  options.environment.insert(environment.begin(), environment.end());
  options.limit = std::chrono::minutes(4);
  return run_process(HOOKLINE_BINARY, options);
}

/// The final accuracy, in percent, of 5 epochs with a config of examples/digits.
double accuracy_with(const std::string& file, int seed) {
  const TemporaryFolder folder;
  // These variables make the arithmetic, and so the accuracies, the same on every CPU.
  const ProcessResult result = launch(
      folder, std::string(DIGITS_FOLDER) + "/" + file,
      {"--set", "training.seed=" + std::to_string(seed), DIGITS_PROGRAM, "--epochs", "5"},
      {{"ATEN_CPU_CAPABILITY", "default"}, {"MKL_CBWR", "COMPATIBLE"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::smatch found;
  EXPECT_TRUE(std::regex_search(result.out, found, std::regex(R"(test accuracy ([0-9.]+) % of 360 images)")))
      << result.out << result.err;
  return found.empty() ? 0 : std::stod(found[1]);
}

/// The mean over three seeds; the first is the one in the config files.
double mean_accuracy_with(const std::string& file) {
  return (accuracy_with(file, 5) + accuracy_with(file, 6) + accuracy_with(file, 7)) / 3;
}

class DigitsHooks : public ::testing::TestWithParam<const char*> {};

TEST_P(DigitsHooks, ReachAboutTheAccuracyOfNoHook) {
  static const double without = mean_accuracy_with("no.toml");
  EXPECT_GT(without, 97);
  EXPECT_GE(mean_accuracy_with(GetParam()), without - 1);
}

INSTANTIATE_TEST_SUITE_P(Digits, DigitsHooks,
                         ::testing::Values("fp16.toml", "bf16.toml", "power_sgd.toml", "power_sgd_fp16.toml",
                                           "batched_power_sgd.toml"));

TEST(Digits, PrintsTheBytesSentAndWhereTheLogsAre) {
  const TemporaryFolder folder;
  const ProcessResult result =
      launch(folder, std::string(DIGITS_FOLDER) + "/power_sgd_fp16.toml", {DIGITS_PROGRAM});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("power_sgd(rank=2, start=10) in fp16"));
  EXPECT_THAT(result.out, HasSubstr("logs and resolved config: "));
  EXPECT_THAT(result.err, HasSubstr("1.14 MB -> 8.48 kB a step after step 10"));
}

TEST(Digits, WritesTheRunsMeasurements) {
  const TemporaryFolder folder;
  const ProcessResult result =
      launch(folder, std::string(DIGITS_FOLDER) + "/power_sgd.toml", {DIGITS_PROGRAM});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto run = folder.path() / "hookline-runs" / "latest";
  const auto summary = nlohmann::json::parse(read_file(run / "summary.json"));
  const double steps = summary.at("steps"), step_seconds = summary.at("step_seconds");
  EXPECT_EQ(steps, 230);
  double sum = 0;
  for (const char* phase : {"forward", "backward", "exposed_communication", "optimizer", "other"}) {
    const double seconds = summary.at("phase_seconds").at(phase);
    EXPECT_GE(seconds, 0) << phase;
    sum += seconds;
  }
  EXPECT_GT(sum, step_seconds / 2) << "together they are the mean";
  EXPECT_GT(summary.at("phase_seconds").at("backward"), 0);
  EXPECT_EQ(summary.at("pipeline"), "power_sgd(rank=2, start=10)");
  const double first = summary.at("stage_bytes").at("gradients"), q = summary.at("stage_bytes").at("q");
  EXPECT_DOUBLE_EQ(first + q, summary.at("bytes_per_step"));
  EXPECT_GT(q, 0);

  std::istringstream lines(read_file(run / "metrics.jsonl"));
  std::map<int, double> errors;
  double bytes_before = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_GE(json.at("bytes_sent"), bytes_before);
    bytes_before = json.at("bytes_sent");
    if (json.contains("compression_error")) errors[json.at("step")] = json.at("compression_error");
  }
  std::vector<int> measured;
  for (const auto& [step, error] : errors) {
    measured.push_back(step);
    EXPECT_TRUE(step <= 10 ? error < 1e-6 : error > 1e-3)
        << step << ": " << error << "; PowerSGD starts at step 10";
  }
  EXPECT_THAT(measured, ::testing::ElementsAre(2, 3, 5, 9, 17, 33, 65, 129));
}

TEST(Digits, ReportsItsProgressToTheLauncher) {
  const TemporaryFolder folder;
  const ProcessResult result = launch(folder, std::string(DIGITS_FOLDER) + "/power_sgd_fp16.toml",
                                      {"--set", "logging.status_interval_seconds=0.3", DIGITS_PROGRAM});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::regex_search(
      result.err, std::regex("\nhookline: 0:[0-9]+ · 2 of 2 ranks · step [0-9]+ · [0-9.e+]+ steps/s · loss "
                             "[0-9.e-]+ · [0-9.]+ [kM]?B/s\n")))
      << result.err;
}

class Charlm : public ::testing::TestWithParam<const char*> {};

TEST_P(Charlm, LearnsAndWritesASample) {
  const TemporaryFolder folder;
  const ProcessResult result =
      launch(folder, std::string(CHARLM_FOLDER) + "/" + GetParam(),
             {"--set", "training.max_steps=30", CHARLM_PROGRAM, "--batch-size", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      result.out, found, std::regex(R"(epoch  1  loss [0-9.]+  validation ([0-9.]+)  [0-9]+ tokens/s)")))
      << result.out << result.err;
  EXPECT_LT(std::stod(found[1]), 3.3) << "a uniform guess has a loss of 4.3";
  EXPECT_GT(found.suffix().length(), 316) << "what it has written: 16 characters of the text, 300 of its own";
}

INSTANTIATE_TEST_SUITE_P(Example, Charlm, ::testing::Values("power_sgd.toml", "full_shard.toml"));

TEST(Examples, RefuseALearningRateOfNaN) {
  const TemporaryFolder folder;
  ProcessOptions options;
  options.folder = folder.path();
  options.arguments = {"--lr", "nan"};
  for (const char* program : {DIGITS_PROGRAM, CHARLM_PROGRAM}) {
    const ProcessResult result = run_process(program, options);
    EXPECT_EQ(result.exit_code, 2) << program;
    EXPECT_THAT(result.err, HasSubstr("--lr: nan is not a learning rate\n"));
  }
}

TEST(CustomHook, IsCheckedBeforeTheProgramStarts) {
  const TemporaryFolder folder;
  const ProcessResult good =
      launch(folder, std::string(CUSTOM_HOOK_FOLDER) + "/clip.toml", {CUSTOM_HOOK_PROGRAM});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.err, HasSubstr("clip_allreduce"));

  const auto config = folder.write(
      "wrong.toml", "[ddp]\ncomm_hook = \"clip_allreduce\"\n[ddp.comm_state_option]\nmax_nrom = 1.0\n");
  const ProcessResult wrong = launch(folder, config, {CUSTOM_HOOK_PROGRAM});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.out, "");
  EXPECT_THAT(wrong.err, HasSubstr("not an option of clip_allreduce; did you mean 'max_norm'?"));
}

TEST(CustomHook, WorksAsAPlugInInAnUnrelatedProgram) {
  const TemporaryFolder folder;
  const std::string hook_options =
      "comm_hook = \"clip_allreduce\"\n[ddp.comm_state_option]\nmax_norm = 10.0\n";
  const auto config = folder.write(
      "run.toml", "[training]\nseed = 5\n[ddp]\nplugins = [\"" PLUGIN_FILE "\"]\n" + hook_options);
  const ProcessResult result = launch(folder, config, {DIGITS_PROGRAM});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("clip_allreduce(max_norm=10)"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("test accuracy 9[6-9]"));

  // A program that registers a hook of that name itself cannot also load the plug-in.
  const ProcessResult twice = launch(folder, config, {CUSTOM_HOOK_PROGRAM});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_EQ(twice.out, "");
  EXPECT_THAT(twice.err, HasSubstr("hook 'clip_allreduce' is there already"));
}

}  // namespace
}  // namespace hookline::testing
