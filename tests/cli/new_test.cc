// `hookline new`: what it creates and refuses. The package test builds the projects and runs their training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;

TEST(New, MakesAProjectWithValidFiles) {
  const Sandbox sandbox;
  const ProcessResult result = sandbox.run({"new", "my-training"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("made my-training; next:\n  cmake --install "),
                                HasSubstr(" --prefix /opt/hookline\n  cd my-training\n  cmake -S . -B build "
                                          "-DCMAKE_PREFIX_PATH=/opt/hookline\n"),
                                HasSubstr("\n  hookline launch build/train\n")));
  for (const std::string name : {"CMakeLists.txt", "train.cpp", "hookline.toml", "sweep.toml", "job.sbatch",
                                 "job.yaml", "README.md", ".gitignore"})
    EXPECT_TRUE(sandbox.has("my-training/" + name)) << name;
  EXPECT_EQ(sandbox.run({"config", "validate", "my-training/hookline.toml"}).exit_code, 0);
  sandbox.folder.write("my-training/build/train", "#!/bin/sh\n", true);
  ProcessOptions options = sandbox.options({"sweep", "sweep.toml", "--dry-run"});
  options.folder = sandbox.folder.path() / "my-training";
  EXPECT_TRUE(testing::run_process(HOOKLINE_BINARY, options).out.ends_with("\n14 trials\n"));
  EXPECT_THAT(
      sandbox.read("my-training/README.md"),
      AllOf(HasSubstr("# my-training\n"), HasSubstr("| `job.sbatch` | "), Not(HasSubstr("mean_after"))));
  EXPECT_THAT(sandbox.read("my-training/job.sbatch"),
              AllOf(HasSubstr("#SBATCH --cpus-per-task=2\n#SBATCH --output="),
                    HasSubstr(" hookline launch --config hookline.toml build/train\n")));
  EXPECT_THAT(sandbox.read("my-training/CMakeLists.txt"), HasSubstr("add_executable(train train.cpp)\n"));
}

TEST(New, AddsAHookInTheCustomHookVariant) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"new", "hooked", "--variant", "custom-hook"}).exit_code, 0);
  EXPECT_THAT(sandbox.read("hooked/CMakeLists.txt"),
              AllOf(HasSubstr("add_executable(train train.cpp mean_after.cpp)\n"),
                    HasSubstr("add_library(mean_after MODULE mean_after.cpp)\n")));
  EXPECT_THAT(sandbox.read("hooked/hookline.toml"), HasSubstr("comm_hook = \"mean_after\"\n"));
  EXPECT_THAT(sandbox.read("hooked/README.md"), HasSubstr("| `mean_after.cpp` | "));
}

TEST(New, MakesAProjectWhoseModelIsSharded) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"new", "parted", "--variant", "sharded"}).exit_code, 0);
  EXPECT_THAT(sandbox.read("parted/train.cpp"), HasSubstr("hookline::FsdpUnit<Block>"));
  EXPECT_THAT(sandbox.read("parted/hookline.toml"),
              HasSubstr("[fsdp]\nsharding_strategy = \"full_shard\"\n"));
  EXPECT_THAT(sandbox.read("parted/job.yaml"),
              AllOf(HasSubstr("    [fsdp]\n    sharding_strategy = \"full_shard\"\n"),
                    HasSubstr("kubectl create secret generic parted --from-literal=token="),
                    ::testing::Not(HasSubstr("kind: Secret"))));
  EXPECT_THAT(
      sandbox.read("parted/README.md"),
      AllOf(HasSubstr("    hookline launch build/train                        # as hookline.toml"),
            HasSubstr("    hookline launch --set fsdp.comm_hook=fp16 build/train # gradients in half")));
  sandbox.folder.write("parted/build/train", "#!/bin/sh\n", true);
  ProcessOptions options = sandbox.options({"sweep", "sweep.toml", "--dry-run"});
  options.folder = sandbox.folder.path() / "parted";
  const ProcessResult plan = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_TRUE(plan.out.ends_with("\n10 trials\n")) << plan.out << plan.err;
}

TEST(New, NeverOverwritesExistingFiles) {
  const Sandbox sandbox;
  sandbox.folder.write("mine/train.cpp", "mine");
  const ProcessResult taken = sandbox.run({"new", "mine"});
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_EQ(taken.err, "hookline: error: 'mine' is there already, and not an empty folder: name another\n");
  EXPECT_EQ(sandbox.read("mine/train.cpp"), "mine");
  EXPECT_FALSE(sandbox.has("mine/README.md"));
  const ProcessResult name = sandbox.run({"new", "My_Project"});
  EXPECT_EQ(name.exit_code, 2);
  EXPECT_THAT(name.err, HasSubstr("'My_Project' can't name a project and its jobs: a name must begin with "));
  EXPECT_EQ(sandbox.run({"new", "a", "--variant", "big"}).err,
            "hookline: error: there is no variant 'big': choose minimal, custom-hook or sharded\n  see: "
            "hookline new "
            "--help\n");
  EXPECT_FALSE(sandbox.has("a"));
  std::filesystem::create_directory(sandbox.folder.path() / "empty");
  EXPECT_EQ(sandbox.run({"new", "empty/"}).exit_code, 0);
}

}  // namespace
}  // namespace hookline
