// `hookline estimate` on models as torch saves them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
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

/// Runs a Python program in the folder.
void write_with_python(const TemporaryFolder& folder, const std::string& program) {
  folder.write("save.py", program);
  ProcessOptions options;
  options.arguments = {"save.py"};
  options.folder = folder.path();
  options.limit = std::chrono::minutes(4);
  const ProcessResult saved = testing::run_process(PYTHON, options);
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
}

constexpr int kMutations = 40;  // each one starts a process that loads libtorch
constexpr std::int64_t kParameters = 30 * 20 + 20 + 20 * 10 + 10;

TEST(EstimateRun, ReadsWhatPythonSaves) {
  const TemporaryFolder folder;
  write_with_python(folder, R"(
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
  if (HasFatalFailure()) return;
  for (const char* file : {"state.pt", "run.pt", "module.pt", "script.pt", "net.pt", "half.pt"})
    EXPECT_EQ(parameters_of(folder, file), kParameters) << file;

  const ProcessResult old = estimate(folder, "old.pt");
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_THAT(old.err,
              HasSubstr("'old.pt' is of the format before torch 1.6; save its state_dict() with today's "
                        "torch.save, or as safetensors\n"));
  // A truncated download.
  const std::string whole = testing::read_file(folder.path() / "state.pt");
  folder.write("half_a_file.pt", whole.substr(0, whole.size() / 2));
  const ProcessResult half = estimate(folder, "half_a_file.pt");
  EXPECT_EQ(half.exit_code, 2);
  EXPECT_THAT(half.err, AllOf(HasSubstr("'half_a_file.pt' can't be read as a torch model"),
                              HasSubstr("\n  save its state_dict() ")));
}

TEST(EstimateRun, ReadsWhatCppSaves) {
  const TemporaryFolder folder;
  const torch::nn::Sequential model(torch::nn::Linear(30, 20), torch::nn::ReLU(), torch::nn::Linear(20, 10));
  torch::save(model, (folder.path() / "module.pt").string());
  EXPECT_EQ(parameters_of(folder, "module.pt"), kParameters);
}

TEST(EstimateRun, CountsTheParametersOfTorchScriptAndNotItsBuffers) {
  const TemporaryFolder folder;
  torch::jit::Module inner("Inner"), net("Net");
  inner.register_parameter("weight", torch::zeros({30, 20}), false);
  inner.register_buffer("running", torch::zeros({500}));
  inner.define("def forward(self, x):\n    return x * self.weight\n");
  net.register_module("inner", inner);
  net.register_parameter("bias", torch::zeros({7}), false);
  net.define("def forward(self, x):\n    return self.inner.forward(x) + self.bias\n");
  net.save((folder.path() / "script.pt").string());
  EXPECT_EQ(parameters_of(folder, "script.pt"), 30 * 20 + 7);
}

TEST(EstimateRun, RefusesAnArchiveThatUnpacksToMuchMoreThanItHolds) {
  const TemporaryFolder folder;
  write_with_python(folder, R"(
import zipfile
with zipfile.ZipFile('bomb.pt', 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('bomb/data.pkl', bytes(300 << 20))
    archive.writestr('bomb/version', '3')
)");
  if (HasFatalFailure()) return;
  const ProcessResult result = estimate(folder, "bomb.pt");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("'bomb.pt' can't be read as a torch model"),
                    HasSubstr(": its list of tensors has 300 MiB, and the most is 256 MiB: it is damaged, or "
                              "not a torch model\n")));
}

/// Runs with 600 MiB of memory per process; libtorch alone needs about 100.
ProcessResult estimate_in_little_memory(const TemporaryFolder& folder, const std::string& file) {
  ProcessOptions options;
  options.arguments = {"-c", "ulimit -d 600000 && exec \"$0\" estimate \"$1\" --json", HOOKLINE_BINARY, file};
  options.folder = folder.path();
  options.environment = {{"XDG_CONFIG_HOME", folder.path().string()}};
  return testing::run_process("/bin/sh", options);
}

TEST(EstimateRun, RefusesATorchScriptArchiveThatUnpacksToGigabytes) {
  const TemporaryFolder folder;
  write_with_python(folder, R"(
import os, zipfile, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(300_000_000))
    def forward(self, x):
        return x * self.weight
torch.jit.script(Model()).save('stored.pt')
with zipfile.ZipFile('stored.pt') as stored, zipfile.ZipFile('tensors.pt', 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
    for name in stored.namelist():
        with stored.open(name) as source, packed.open(name, 'w') as to:
            while block := source.read(1 << 20):
                to.write(block)
os.remove('stored.pt')
def bomb(file, name, megabytes):
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr('bomb/version', '3')
        archive.writestr('bomb/constants.pkl', b'\x80\x02).')
        archive.writestr('bomb/data.pkl', b'\x80\x02).')
        with archive.open('bomb/' + name, 'w') as record:
            for i in range(megabytes):
                record.write(bytes(1 << 20))
bomb('code.pt', 'code/__torch__.py', 300)
bomb('constants.pt', 'constants/0', 300)
for file in ['tensors.pt', 'code.pt', 'constants.pt']:
    assert os.path.getsize(file) < 1_300_000
)");
  const auto refused = [&](const std::string& file, const std::string& why) {
    const ProcessResult result = estimate_in_little_memory(folder, file);
    EXPECT_EQ(result.exit_code, 2) << file;
    EXPECT_THAT(result.err, ContainsRegex("'" + file + "' can't be read as [^:]*: " + why));
  };
  refused("tensors.pt", "its tensors have 1.12 GiB in a file of 1.[0-9]+ MiB");
  refused("constants.pt", "its tensors have 300 MiB in a file of [0-9]+ KiB");
  refused("code.pt", "its code and its lists have 300 MiB");
}

TEST(EstimateRun, StopsAMemoryBombInATorchScriptPickle) {
  const TemporaryFolder folder;
  // Each is less than 256 MiB of instructions, in a file of 0.2 MB.
  write_with_python(folder, R"(
import zipfile
text = b'X' + (200 << 20).to_bytes(4, 'little') + b'x' * (200 << 20)
pickle = b'\x80\x02' + b'(' + text + b'l.'
def archive(file, pickle):
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('a/version', '3')
        archive.writestr('a/constants.pkl', b'\x80\x02).')
        archive.writestr('a/data.pkl', pickle)
archive('text.pt', pickle)
archive('marks.pt', b'\x80\x02' + b'(' * (200 << 20) + b'.')
archive('empty.pt', b'\x80\x02' + b']' * (200 << 20) + b'.')
)");
  for (const char* const file : {"text.pt", "marks.pt", "empty.pt"}) {
    const ProcessResult result = estimate(folder, file);
    EXPECT_EQ(result.exit_code, 2) << file;
    EXPECT_THAT(result.err, HasSubstr(std::string("'") + file + "' can't be read as a torch model")) << file;
  }
  EXPECT_THAT(estimate(folder, "empty.pt").err, AllOf(HasSubstr("takes more than 256 MiB of memory"),
                                                      HasSubstr("it holds more than a model\n")));
}

TEST(EstimateRun, RunsNoCodeOfAModelFile) {
  const TemporaryFolder folder;
  // A module with its own __setstate__, and code that overflows the stack of libtorch's parser.
  write_with_python(folder, R"(
import torch, zipfile
from typing import Tuple
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3, 4))
    def forward(self, x):
        return x * self.weight
    @torch.jit.export
    def __getstate__(self):
        return (self.weight, self.training)
    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]):
        self.weight = state[0]
        self.training = state[1]
torch.jit.script(Model()).save('restores.pt')
torch.jit.script(torch.nn.Linear(3, 4)).save('whole.pt')
with zipfile.ZipFile('whole.pt') as whole, zipfile.ZipFile('deep.pt', 'w', zipfile.ZIP_DEFLATED) as deep:
    for name in whole.namelist():
        text = whole.read(name)
        if name.endswith('.py'):
            text = text.replace(b'return', b'return ' + b'(' * 3_000_000, 1)
        deep.writestr(name, text)
)");
  if (HasFatalFailure()) return;
  const ProcessResult result = estimate(folder, "restores.pt");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, MatchesRegex("hookline: error: 'restores.pt' can't be read as [^:]*: its module "
                                       "'__torch__.Model' is restored by [^\n]*, __setstate__, [^\n]*\n"
                                       "  save its state_dict[^\n]*\n"
                                       "  see: hookline estimate --help\n"));
  EXPECT_EQ(parameters_of(folder, "deep.pt"), 3 * 4 + 4);
}

/// `text` with some bytes overwritten. If bytes were inserted or removed, only the archive's directory would
/// be read.
std::string overwritten(std::string text, std::mt19937& random) {
  constexpr char kPadding = 'Z';  // torch's padding between records
  static const std::vector<std::string> pieces = {"(",
                                                  "]",
                                                  "}",
                                                  "R",
                                                  "b",
                                                  "Q",
                                                  "\x93",
                                                  "import ",
                                                  "class ",
                                                  "Z",
                                                  "X",
                                                  std::string(4, '\xff'),
                                                  std::string(8, '\0')};
  for (unsigned changes = 1 + random() % 4; changes > 0;) {
    const std::size_t at = random() % text.size();
    if (text[at] == kPadding) continue;
    --changes;
    std::string piece = pieces[random() % pieces.size()];
    if (random() % 2 == 0) piece = std::string(1, static_cast<char>(random()));
    text.replace(at, std::min(piece.size(), text.size() - at), piece.substr(0, text.size() - at));
  }
  return text;
}

TEST(EstimateRun, SurvivesMutationsOfATorchScriptArchive) {
  const TemporaryFolder folder;
  write_with_python(folder, "import torch\ntorch.jit.script(torch.nn.Linear(3, 4)).save('whole.pt')\n");
  const std::string whole = testing::read_file(folder.path() / "whole.pt");
  std::mt19937 random(20260302);
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    folder.write("x.pt", overwritten(whole, random));
    const ProcessResult result = estimate(folder, "x.pt");
    ASSERT_TRUE(result.exit_code == 0 || result.exit_code == 2)
        << i << ": " << result.exit_code << ", " << result.err;
    if (result.exit_code == 2) {
      ASSERT_THAT(result.err, AllOf(HasSubstr("hookline: error: 'x.pt' "), Not(HasSubstr("torch model: \n"))))
          << i;
      ++refused;
    }
  }
  EXPECT_GT(refused, kMutations / 4);
}

}  // namespace
}  // namespace hookline
