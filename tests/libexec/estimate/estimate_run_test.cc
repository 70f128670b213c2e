// Models as torch saves them, read by `hookline estimate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "support/process.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

ProcessResult estimate(const TemporaryFolder& folder, const std::string& file) {
  ProcessOptions options;
  options.arguments = {"estimate", file, "--json"};
  options.folder = folder.path();
  options.environment = {{"XDG_CONFIG_HOME", folder.path().string()}};
  return testing::run_process(HOOKLINE_BINARY, options);
}

std::int64_t parameters_of(const TemporaryFolder& folder, const std::string& file) {
  const ProcessResult result = estimate(folder, file);
  EXPECT_EQ(result.exit_code, 0) << file << ": " << result.err;
  return result.exit_code == 0 ? nlohmann::json::parse(result.out)["parameters"].get<std::int64_t>() : -1;
}

constexpr std::int64_t kParameters = 30 * 20 + 20 + 20 * 10 + 10;

TEST(EstimateRun, ReadsWhatPythonSaves) {
  const TemporaryFolder folder;
  folder.write("save.py", R"(
import torch, torch.nn as nn
model = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 10))
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(4, 30)).sum().backward()
optimizer.step()
torch.save(model.state_dict(), 'state.pt')
torch.save({'epoch': 3, 'model_state_dict': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'run.pt')
torch.save(model, 'module.pt')
torch.jit.script(model).save('script.pt')
torch.save({'net': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'net.pt')
torch.save(model.half().state_dict(), 'half.pt')
torch.save(model.state_dict(), 'old.pt', _use_new_zipfile_serialization=False)
)");
  ProcessOptions options;
  options.arguments = {"save.py"};
  options.folder = folder.path();
  options.limit = std::chrono::minutes(4);
  const ProcessResult saved = testing::run_process(PYTHON, options);
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  for (const char* file : {"state.pt", "run.pt", "module.pt", "script.pt", "net.pt", "half.pt"})
    EXPECT_EQ(parameters_of(folder, file), kParameters) << file;

  const ProcessResult old = estimate(folder, "old.pt");
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_THAT(old.err,
              HasSubstr("'old.pt' is of the format before torch 1.6; save its state_dict() with today's "
                        "torch.save, or as safetensors\n"));
  // A download that was broken off.
  const std::string whole = testing::read_file(folder.path() / "state.pt");
  folder.write("half_a_file.pt", whole.substr(0, whole.size() / 2));
  const ProcessResult half = estimate(folder, "half_a_file.pt");
  EXPECT_EQ(half.exit_code, 2);
  EXPECT_THAT(half.err, AllOf(HasSubstr("'half_a_file.pt' can't be read as a model of torch's: "),
                              HasSubstr("\n  save its state_dict() with today's torch.save")));
}

TEST(EstimateRun, ReadsWhatCppSaves) {
  const TemporaryFolder folder;
  const torch::nn::Sequential model(torch::nn::Linear(30, 20), torch::nn::ReLU(), torch::nn::Linear(20, 10));
  torch::save(model, (folder.path() / "module.pt").string());
  EXPECT_EQ(parameters_of(folder, "module.pt"), kParameters);
}

TEST(EstimateRun, RefusesAnArchiveThatUnpacksToMuchMoreThanItHolds) {
  const TemporaryFolder folder;
  folder.write("save.py", R"(
import zipfile
with zipfile.ZipFile('bomb.pt', 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('bomb/data.pkl', bytes(300 << 20))
    archive.writestr('bomb/version', '3')
)");
  ProcessOptions options;
  options.arguments = {"save.py"};
  options.folder = folder.path();
  options.limit = std::chrono::minutes(4);
  const ProcessResult saved = testing::run_process(PYTHON, options);
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const ProcessResult result = estimate(folder, "bomb.pt");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("'bomb.pt' can't be read as a model of torch's: its list of tensors has 300 MiB, and "
                        "the most is 256 MiB: it is damaged, or no model of torch's"));
}

}  // namespace
}  // namespace hookline
