// hookline under real schedulers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/process.h"
#include "support/slurm.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Slurm;
using ::testing::StartsWith;
using testing::TemporaryFolder;

class OnSlurm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!slurm_.problem().empty()) GTEST_SKIP() << slurm_.problem();
  }

  ProcessOptions here(std::vector<std::string> arguments) {
    ProcessOptions options = slurm_.options(std::move(arguments));
    options.folder = folder_.path();
    return options;
  }

  Slurm slurm_;
  TemporaryFolder folder_;
};

TEST_F(OnSlurm, DigitsTrainsOnTwoNodesWithoutAnAddress) {
  const ProcessResult result = testing::run_process(
      "/usr/bin/srun", here({"--nodes=2", "--ntasks-per-node=1", HOOKLINE_BINARY, "launch", "--config",
                             DIGITS_FOLDER "/fp16.toml", "--set", "launch.processes_per_node=1",
                             DIGITS_PROGRAM, "--epochs", "2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: Slurm: node 0 of 2; the nodes meet at 127.0.0.1\n"),
                                HasSubstr("hookline: Slurm: node 1 of 2; the nodes meet at 127.0.0.1\n"),
                                HasSubstr("hookline: 2 ranks on 2 nodes: ")));
  EXPECT_THAT(result.out, HasSubstr("[0] test accuracy 9"));
}

TEST_F(OnSlurm, AFailureFailsTheJob) {
  folder_.write("train", "#!/bin/sh\n[ $RANK = 1 ] && exit 7\nsleep 60\n", true);
  const ProcessResult result = testing::run_process(
      "/usr/bin/srun", here({"--nodes=2", "--ntasks-per-node=1", HOOKLINE_BINARY, "launch", "./train"}));
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hookline: error: rank 1 on "));
}

TEST_F(OnSlurm, OneLauncherForTwoNodesIsRefused) {
  folder_.write("train", "#!/bin/sh\nexit 0\n", true);
  const auto script =
      folder_.write("job", "#!/bin/sh\n" HOOKLINE_BINARY " launch ./train >out 2>&1\necho $? >code\n", true);
  const ProcessResult result = testing::run_process(
      "/usr/bin/sbatch", here({"--wait", "--nodes=2", "--output=/dev/null", script.string()}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(testing::read_file(folder_.path() / "code"), "2\n");
  EXPECT_THAT(testing::read_file(folder_.path() / "out"),
              AllOf(StartsWith("hookline: error: this job has 2 nodes, "), HasSubstr("on one of them only"),
                    HasSubstr("'srun --ntasks-per-node=1 ")));
}

/// Is there a process that runs a step of this job?
bool has_steps(const std::string& job) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream command(entry.path() / "cmdline");
    std::string title;
    if (std::getline(command, title, '\0') && title.starts_with("slurmstepd: [" + job + ".")) return true;
  }
  return false;
}

TEST_F(OnSlurm, APreemptedJobIsRequeuedAndResumes) {
  folder_.write("run.toml", "[training]\nmax_steps = 6000\ncheckpoint_every_steps = 1000000\n");
  Process submitted(HOOKLINE_BINARY, here({"submit", "--scheduler", "slurm", "--nodes", "2", "--name", "job",
                                           "--config", "run.toml", RESUMING_RANK_PROGRAM}));
  ASSERT_TRUE(submitted.wait_for(" a step over ")) << submitted.out() << submitted.err();
  const std::string job = slurm_.run("/usr/bin/squeue", {"-h", "-o", "%i"}).out;
  const std::string number = job.substr(0, job.find('\n'));
  // The signal that a scheduler sends before it takes the nodes away.
  EXPECT_EQ(slurm_.run("/usr/bin/scancel", {"--signal=USR1", number}).exit_code, 0);
  ASSERT_TRUE(submitted.wait_for("saved a checkpoint on SIGUSR1")) << submitted.out();
  // Slurm would hold the requeued job for two minutes, so that the first run's steps have reported their
  // end before the second run starts: a later report would make Slurm take the second run for the one that
  // failed. The test starts the second run as soon as those steps have exited.
  EXPECT_TRUE(eventually([&] { return !has_steps(number); }));
  EXPECT_TRUE(eventually([&] {
    return slurm_.run("/usr/bin/scontrol", {"update", "JobId=" + number, "StartTime=now"}).exit_code == 0;
  }));
  const ProcessResult result = submitted.wait();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("hookline: job " + number + ", written to hookline-runs/job-"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("hookline: stopping at step "), HasSubstr("hookline: resuming from step "),
                    HasSubstr("[0] ended at step 6000: "), HasSubstr("[1] ended at step 6000: ")));
}

TEST(OnOpenMpi, LaunchersFindEachOther) {
  if (!std::filesystem::exists("/usr/bin/mpirun"))
    GTEST_SKIP() << "no /usr/bin/mpirun here (Debian's openmpi-bin)";
  const TemporaryFolder folder;
  folder.write("train",
               "#!/bin/sh\necho rank $RANK of $WORLD_SIZE\n[ $RANK = 3 ] && exit $(cat code)\nexit 0\n",
               true);
  folder.write("code", "0");
  ProcessOptions options;
  options.folder = folder.path();
  options.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  options.arguments = {"--oversubscribe",      "-np", "2",      HOOKLINE_BINARY, "launch",
                       "--processes-per-node", "2",   "./train"};
  ProcessResult result = testing::run_process("/usr/bin/mpirun", options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] rank 0 of 4\n"), HasSubstr("[3] rank 3 of 4\n")));
  EXPECT_THAT(result.err, HasSubstr("hookline: Open MPI: node 1 of 2; the nodes meet at 127.0.0.1\n"));
  folder.write("code", "5");
  result = testing::run_process("/usr/bin/mpirun", options);
  EXPECT_EQ(result.exit_code, 5) << result.err;
}

}  // namespace
}  // namespace hookline
