// Where a rank computes: on machines without a GPU, and on one that only appears to have one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/process.h"

namespace hookline::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ProcessOptions rank_options(const std::string& device, const std::string& backend = "auto") {
  ProcessOptions options;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "HOOKLINE_CONFIG", "CUDA_VISIBLE_DEVICES"})
    options.environment[name] = std::nullopt;
  options.environment["HOOKLINE_LAUNCH__DEVICE"] = device;
  options.environment["HOOKLINE_LAUNCH__BACKEND"] = backend;
  return options;
}

ProcessResult without_gpu(const std::string& device, const std::string& backend = "auto") {
  ProcessOptions options = rank_options(device, backend);
  options.environment["CUDA_VISIBLE_DEVICES"] = "";
  return run_process(SHOW_DEVICE_PROGRAM, options);
}

/// Runs a rank with a private /dev that holds a file nvidia0 but no driver.
ProcessResult with_sham_gpu(const std::string& device, const std::string& libraries = "") {
  ProcessOptions options = rank_options(device);
  options.environment["LD_LIBRARY_PATH"] = libraries.empty() ? std::nullopt : std::optional(libraries);
  options.arguments = {"--mount", "sh", "-c",
                       "mount -t tmpfs none /dev && touch /dev/nvidia0 && mknod /dev/null c 1 3 && mknod "
                       "/dev/urandom c 1 9 && "
                       "exec " SHOW_DEVICE_PROGRAM};
  return run_process("/usr/bin/unshare", options);
}

bool can_make_sham_gpu() {
  if (std::filesystem::exists("/dev/nvidiactl")) return false;  // a real driver would answer
  ProcessOptions options;
  options.arguments = {"--mount", "sh", "-c",
                       "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && : > /dev/null"};
  return run_process("/usr/bin/unshare", options).exit_code == 0;
}

TEST(Placement, IsTheCpuWithoutAGpuUnlessCudaIsRequested) {
  EXPECT_EQ(without_gpu("auto").out, "cpu without libtorch_cuda\n");
  EXPECT_EQ(without_gpu("cpu").out, "cpu without libtorch_cuda\n");
  EXPECT_EQ(without_gpu("auto").err, "");

  const ProcessResult by_name = without_gpu("cuda");
  EXPECT_EQ(by_name.exit_code, 1);
  EXPECT_THAT(by_name.err, StartsWith("hookline: error: [launch] device = \"cuda\": there is no GPU here: "));
  const ProcessResult nccl = without_gpu("auto", "nccl");
  EXPECT_EQ(nccl.exit_code, 1);
  EXPECT_THAT(nccl.err,
              StartsWith("hookline: error: [launch] backend = \"nccl\" needs GPUs: there is no GPU here: "));
  const ProcessResult mixed = without_gpu("cpu", "nccl");
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("backend \"nccl\" does not work with device \"cpu\""));
}

TEST(Placement, SaysWhyTheGpuCanNotBeUsed) {
  if (!can_make_sham_gpu())
    GTEST_SKIP() << "mount namespaces can't be made here (run as root), or there is a real GPU";
  // The error depends on the machine: it may lack libtorch_cuda's libraries, or only the driver.
  const auto reason = ::testing::AnyOf(HasSubstr("hookline's CUDA module can't be loaded: "),
                                       HasSubstr("libtorch sees no CUDA, "));
  const ProcessResult by_name = with_sham_gpu("cuda");
  EXPECT_EQ(by_name.exit_code, 1);
  EXPECT_THAT(by_name.err, AllOf(StartsWith("hookline: error: [launch] device = \"cuda\": "), reason));

  const ProcessResult any = with_sham_gpu("auto");
  EXPECT_EQ(any.exit_code, 0) << any.err;
  EXPECT_THAT(any.out, StartsWith("cpu with"));
  EXPECT_THAT(any.err,
              AllOf(StartsWith("hookline: warning: training on the CPU, though there are GPUs: "), reason));

  const ProcessResult cpu = with_sham_gpu("cpu");
  EXPECT_EQ(cpu.out, "cpu without libtorch_cuda\n") << cpu.err;
  EXPECT_EQ(cpu.err, "");
}

TEST(Placement, LoadsTheModuleWhenItsLibrariesArePresent) {
  if (!can_make_sham_gpu())
    GTEST_SKIP() << "mount namespaces can't be made here (run as root), or there is a real GPU";
  ProcessOptions find;
  find.arguments = {
      "-c", "echo $(ls -d " FULL_TORCH "/torch/lib " FULL_TORCH "/nvidia/*/lib 2>/dev/null) | tr ' ' ':'"};
  std::string libraries = run_process("/bin/sh", find).out;
  libraries.erase(libraries.find_last_not_of('\n') + 1);
  if (libraries.empty()) GTEST_SKIP() << "no libtorch with CUDA in " FULL_TORCH ": ./dev test installs one";
  if (!HAS_CUDA_MODULE) GTEST_SKIP() << "built without a CUDA toolkit";
  const ProcessResult result = with_sham_gpu("cuda", libraries);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("libtorch sees no CUDA, though its library is loaded: either the driver does not "
                        "work (try nvidia-smi), or a global variable of the program used libtorch before"));
  const ProcessResult any = with_sham_gpu("auto", libraries);
  EXPECT_EQ(any.out, "cpu with libtorch_cuda\n");
}

}  // namespace
}  // namespace hookline::testing
