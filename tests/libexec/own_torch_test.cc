// HOOKLINE_TORCH for an installed hookline: which libtorch its own programs load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/regular_file.h"
#include "support/process.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

class OwnTorch : public ::testing::Test {
 protected:
  ProcessResult run(const std::vector<std::string>& arguments, const fs::path& torch) const {
    ProcessOptions options;
    options.arguments = arguments;
    options.folder = folder_.path();
    options.environment = {{"HOOKLINE_TORCH", torch.string()},
                           {"CUDA_VISIBLE_DEVICES", ""},
                           {"LD_DEBUG", "libs"},
                           {"LD_DEBUG_OUTPUT", (folder_.path() / "linker").string()},
                           {"XDG_CONFIG_HOME", (folder_.path() / "xdg").string()}};
    return testing::run_process(HOOKLINE_BINARY, options);
  }

  std::string libtorch_of_env(const fs::path& torch) const {
    const ProcessResult result = run({"env", "--json"}, torch);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)["libtorch"].dump();
  }

  /// What the dynamic linker logged in all processes.
  std::string loaded() const {
    std::string text;
    for (const auto& each : fs::directory_iterator(folder_.path()))
      if (each.path().filename().string().starts_with("linker.")) {
        InputFile file(each.path());
        text.append(std::istreambuf_iterator<char>(file), {});
      }
    return text;
  }

  TemporaryFolder folder_;
};

TEST_F(OwnTorch, IsTheOneThatTheVariableNames) {
  const fs::path torch = folder_.path() / "torch";
  fs::create_directory_symlink(TORCH_ROOT, torch);
  EXPECT_THAT(libtorch_of_env(torch), HasSubstr(TORCH_VERSION));
  EXPECT_THAT(loaded(), HasSubstr("calling init: " + (torch / "lib/libtorch_cpu.so").string()));
}

TEST_F(OwnTorch, MayBeThatOfAPythonEnvironment) {
  const fs::path site = folder_.path() / "venv/lib/python3.11/site-packages";
  fs::create_directories(site);
  fs::create_directory_symlink(TORCH_ROOT, site / "torch");
  EXPECT_THAT(libtorch_of_env(folder_.path() / "venv"), HasSubstr(TORCH_VERSION));
  EXPECT_THAT(loaded(), HasSubstr("calling init: " + (site / "torch/lib/libtorch_cpu.so").string()));
}

TEST_F(OwnTorch, IsRefusedIfTheVariableNamesNone) {
  const std::string torch = (folder_.path() / "none").string();
  const std::string message = "HOOKLINE_TORCH is '" + torch +
                              "', which has no lib/libtorch_cpu.so: name a libtorch folder or a Python "
                              "environment with torch, or unset it";
  const ProcessResult result = run({"test", "--processes-per-node", "2"}, torch);
  EXPECT_EQ(result.err, "hookline: error: " + message + "\n");
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_EQ(libtorch_of_env(torch), nlohmann::json(message).dump());
}

TEST_F(OwnTorch, IsRefusedIfItIsOfAnotherVersion) {
  folder_.write("old/lib/libtorch_cpu.so", "");
  folder_.write(
      "old/include/torch/headeronly/version.h",
      "#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 2\n#define TORCH_VERSION_PATCH 3\n");
  const std::string torch = (folder_.path() / "old").string();
  const ProcessResult result = run({"test", "--processes-per-node", "2"}, torch);
  EXPECT_EQ(result.err, "hookline: error: HOOKLINE_TORCH is '" + torch + "', which is torch 1.2.3, and '" +
                            fs::path(HOOKLINE_BINARY).parent_path().parent_path().string() +
                            "/libexec/hookline/self_test_rank' was built with torch " TORCH_VERSION
                            ", hookline " HOOKLINE_VERSION
                            ": name that torch, or install the hookline for this one\n");
  EXPECT_EQ(result.exit_code, 126);
}

}  // namespace
}  // namespace hookline
