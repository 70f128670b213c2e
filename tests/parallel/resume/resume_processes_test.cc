// Runs that are killed, stopped or short of disk space, and resume from their checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "resuming_launch.h"
#include "support/free_port.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::ends_of;
using testing::ends_without_a_stop;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::kPowerSgd;
using testing::launch_in;
using ::testing::Not;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::run;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::with;

TEST(ResumedRun, MatchesAnUninterruptedRunBitForBit) {
  for (const std::string in_background : {"false", "true"}) {
    for (const auto& hook : {std::vector<std::string>{}, kPowerSgd}) {
      const auto sets = with(hook, {"training.max_steps=30"});
      const TemporaryFolder folder;
      ProcessOptions options = launch_in(
          folder.path(),
          with(sets, {"training.checkpoint_every_steps=4", "launch.max_restarts=1",
                      "training.checkpoint_keep_last=2", "training.checkpoint_async=" + in_background}));
      options.environment["KILL_AT"] = "11";
      const ProcessResult result = run(options);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      // A background save may be unfinished when the rank is killed.
      const std::string steps = in_background == "true" ? "[48]" : "8";
      EXPECT_THAT(result.err, AllOf(ContainsRegex("resuming from step " + steps +
                                                  ": checkpoint 'checkpoints/step_0000000" + steps + "'"),
                                    Not(HasSubstr("not restored")), Not(HasSubstr("passed over"))));
      EXPECT_EQ(ends_of(result), ends_without_a_stop(sets));
      EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints/step_00000030/model.safetensors"));
      EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints/step_00000028"));
      EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints/step_00000024"));
    }
  }
}

TEST(ResumedRun, CountsTimeAndBytesOfAllAttemptsInItsMetrics) {
  const TemporaryFolder folder;
  ProcessOptions options =
      launch_in(folder.path(), with(kPowerSgd, {"training.max_steps=30", "training.checkpoint_every_steps=4",
                                                "launch.max_restarts=1"}));
  options.environment["KILL_AT"] = "18";
  const ProcessResult result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::ifstream metrics(folder.path() / "hookline-runs/latest/metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(metrics, line);) lines.push_back(nlohmann::json::parse(line));
  bool went_back = false;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_GT(lines[i].at("seconds"), lines[i - 1].at("seconds")) << lines[i];
    EXPECT_GT(lines[i].at("bytes_sent"), lines[i - 1].at("bytes_sent")) << lines[i];
    went_back = went_back || lines[i].at("step") <= lines[i - 1].at("step");
  }
  EXPECT_TRUE(went_back) << "both attempts have logged compression errors";
}

TEST(ResumedRun, NextLaunchResumesOnlyOnRequest) {
  const TemporaryFolder folder;
  const auto sets = with(kPowerSgd, {"training.checkpoint_every_steps=5"});
  EXPECT_EQ(run(launch_in(folder.path(), with(sets, {"training.max_steps=13"}))).exit_code, 0);
  const ProcessResult mixed = run(launch_in(folder.path(), with(sets, {"training.max_steps=30"})));
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(
      mixed.err,
      AllOf(StartsWith("hookline: error: checkpoint_dir 'checkpoints' holds checkpoints of an earlier "
                       "run (step_00000013): "),
            EndsWith("\n  checkpoint_dir: default\n")));
  const ProcessResult result =
      run(launch_in(folder.path(), with(sets, {"training.max_steps=30", "training.resume=auto"})));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("resuming from step 13: "));
  EXPECT_EQ(ends_of(result), ends_without_a_stop(with(kPowerSgd, {"training.max_steps=30"})));
}

TEST(ResumedRun, RestartsFromItsResumePointIfKilledBeforeItsFirstSave) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run(launch_in(folder.path(), {"training.checkpoint_every_steps=5", "training.max_steps=11"})).exit_code,
      0);
  const std::vector<std::string> sets = {"training.max_steps=30", "training.resume=checkpoints/step_00000005",
                                         "training.checkpoint_every_steps=1000", "launch.max_restarts=1"};
  const ProcessResult mixed = run(launch_in(folder.path(), sets));
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(mixed.err, AllOf(StartsWith("hookline: error: checkpoint_dir 'checkpoints' holds checkpoints "
                                          "beyond step 5, "),
                               HasSubstr(" step_00000011: "), EndsWith("\n  checkpoint_dir: default\n")));
  ProcessOptions options = launch_in(folder.path(), with(sets, {"training.checkpoint_dir=mine"}));
  options.environment["KILL_AT"] = "8";
  const ProcessResult result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("restarting all ranks"));
  EXPECT_EQ(ends_of(result), ends_without_a_stop({"training.max_steps=30"}));
}

/// Launches `program` on two nodes of this machine, with a rank each, and returns what each launcher did.
std::vector<ProcessResult> run_on_two_nodes(const std::filesystem::path& folder,
                                            const std::vector<std::string>& sets,
                                            const std::vector<std::string>& program = {
                                                RESUMING_RANK_PROGRAM}) {
  ProcessOptions options =
      launch_in(folder,
                with(sets, {"launch.nnodes=2", "rendezvous.main_address=127.0.0.1",
                            "rendezvous.main_port=" + std::to_string(testing::free_port())}),
                program);
  options.arguments[2] = "1";  // --processes-per-node
  testing::Process other(HOOKLINE_BINARY, options);
  const ProcessResult result = run(options);
  return {result, other.wait()};
}

const std::string kFirstAttemptFails = "[ $TORCHELASTIC_RESTART_COUNT != 0 ] || exit 7; exec ";

// Nodes can't check the folder before their ranks start: one may join late, when the run has saved already.
TEST(ResumedRun, NeverResumesFromAnotherRunsCheckpointsOnSeveralNodes) {
  const TemporaryFolder folder;
  const std::vector<std::string> sets = {"training.checkpoint_every_steps=5", "launch.max_restarts=2"};
  for (const ProcessResult& first : run_on_two_nodes(folder.path(), with(sets, {"training.max_steps=13"})))
    ASSERT_EQ(first.exit_code, 0) << first.err;
  const auto expect_refused = [](const std::vector<ProcessResult>& nodes) {
    std::string messages;
    for (const ProcessResult& node : nodes) {
      EXPECT_EQ(node.exit_code, 2) << node.err;
      EXPECT_EQ(node.out, "");
      messages += node.err;
    }
    EXPECT_THAT(messages, HasSubstr("checkpoint_dir 'checkpoints' holds checkpoints of an earlier run"));
  };
  const auto longer = with(sets, {"training.max_steps=30"});
  expect_refused(run_on_two_nodes(folder.path(), longer));
  const std::string late = kFirstAttemptFails + RESUMING_RANK_PROGRAM;
  expect_refused(run_on_two_nodes(folder.path(), longer, {"/bin/sh", "-c", late}));
}

TEST(ResumedRun, ResumesFromItsOwnCheckpointsOnSeveralNodes) {
  const TemporaryFolder folder;
  const std::string killed = "[ $TORCHELASTIC_RESTART_COUNT != 0 ] || export KILL_AT=8; exec ";
  const std::vector<ProcessResult> nodes = run_on_two_nodes(
      folder.path(), {"training.checkpoint_every_steps=5", "launch.max_restarts=2", "training.max_steps=30"},
      {"/bin/sh", "-c", killed + RESUMING_RANK_PROGRAM});
  std::string messages;
  for (const ProcessResult& node : nodes) {
    EXPECT_EQ(node.exit_code, 0) << node.err;
    messages += node.err;
  }
  EXPECT_THAT(messages, HasSubstr("resuming from step 5: "));
}

TEST(ResumedRun, RestartsFromItsResumePointRatherThanFromOlderCheckpoints) {
  const TemporaryFolder folder;
  const std::vector<std::string> keeps = {"training.checkpoint_every_steps=5"};
  ASSERT_EQ(run(launch_in(folder.path(), with(keeps, {"training.max_steps=11"}))).exit_code, 0);
  ASSERT_EQ(run(launch_in(folder.path(), with(keeps, {"training.max_steps=8", "training.seed=3",
                                                      "training.checkpoint_dir=other"})))
                .exit_code,
            0);
  ProcessOptions options =
      launch_in(folder.path(), {"training.checkpoint_every_steps=1000", "training.max_steps=30",
                                "training.resume=checkpoints/step_00000011", "launch.max_restarts=1",
                                "training.checkpoint_dir=other"});
  options.environment["KILL_AT"] = "14";
  const ProcessResult result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("restarting all ranks"), Not(HasSubstr("resuming from step 8"))));
  EXPECT_EQ(ends_of(result), ends_without_a_stop({"training.max_steps=30"}));
}

TEST(ResumedRun, ResumesAfterThePreemptionItSavedFor) {
  const TemporaryFolder folder;
  const auto sets = with(kPowerSgd, {"training.max_steps=1500", "training.checkpoint_every_steps=100000"});
  testing::Process launcher(HOOKLINE_BINARY, launch_in(folder.path(), sets));
  ASSERT_TRUE(launcher.wait_for("after step 3"));
  // Only one rank gets the signal; the other learns of it.
  const auto ranks = testing::children_of(testing::agent_of(launcher.pid()));
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks[1], SIGUSR1);
  const ProcessResult stopped = launcher.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  EXPECT_THAT(stopped.err,
              AllOf(ContainsRegex("hookline: stopping at step [0-9]+, because of SIGUSR1: with resume = "),
                    HasSubstr("hookline: the ranks saved a checkpoint on SIGUSR1 and ended: launch again, "
                              "with [training] resume = \"auto\"\n"),
                    Not(HasSubstr("error"))));
  const ProcessResult result = run(launch_in(folder.path(), with(sets, {"training.resume=auto"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resuming from step "));
  EXPECT_EQ(ends_of(result), ends_without_a_stop(with(kPowerSgd, {"training.max_steps=1500"})));
}

TEST(ResumedRun, ResumesAfterAPreemptionBeforeItsRanksWereReady) {
  const TemporaryFolder folder;
  // The ranks' program starts slowly.
  folder.write("slow",
               "#!/bin/sh\n: >here$RANK\nuntil [ -e go ]; do sleep 0.02; done\nexec " RESUMING_RANK_PROGRAM
               "\n",
               true);
  const auto sets = with(kPowerSgd, {"training.max_steps=1500", "training.checkpoint_every_steps=100000"});
  testing::Process launcher(HOOKLINE_BINARY, launch_in(folder.path(), sets, {"./slow"}));
  for (const std::string rank : {"here0", "here1"})
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(folder.path() / rank); }));
  launcher.signal(SIGUSR1);
  ASSERT_TRUE(launcher.wait_for("received SIGUSR1"));
  folder.write("go", "");
  const ProcessResult stopped = launcher.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("ranks saved a checkpoint on SIGUSR1"));
  const ProcessResult result = run(launch_in(folder.path(), with(sets, {"training.resume=auto"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ends_of(result), ends_without_a_stop(with(kPowerSgd, {"training.max_steps=1500"})));
}

TEST(ResumedRun, IsLeftForLaterByAPreemptionBetweenTwoAttempts) {
  const TemporaryFolder folder;
  const auto sets = with(kPowerSgd, {"training.max_steps=30"});
  auto first = with(sets, {"training.checkpoint_every_steps=4", "launch.max_restarts=1"});
  ProcessOptions options = launch_in(folder.path(), first);
  *std::find(options.arguments.begin(), options.arguments.end(), "launch.restart_delay_seconds=0") =
      "launch.restart_delay_seconds=600";
  options.environment["KILL_AT"] = "11";
  testing::Process launcher(HOOKLINE_BINARY, options);
  ASSERT_TRUE(launcher.wait_for("restarting all ranks in 600 s"));
  launcher.signal(SIGUSR1);
  const ProcessResult stopped = launcher.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("hookline: the run ends on SIGUSR1 while no ranks train: launch again, "
                                     "with [training] resume = \"auto\"\n"));
  const ProcessResult result = run(launch_in(folder.path(), with(first, {"training.resume=auto"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resuming from step 8: "));
  EXPECT_EQ(ends_of(result), ends_without_a_stop(sets));
}

TEST(ResumedRun, IsRefusedUpFrontIfItsCheckpointIsMissing) {
  const TemporaryFolder folder;
  const ProcessResult result = run(launch_in(folder.path(), {"training.resume=no/such"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(
      result.err,
      "hookline: error: 'no/such/manifest.json' can't be read: 'no/such' is not a checkpoint: resume is "
      "\"auto\", \"no\", "
      "or the folder of a checkpoint\n  resume: from command line --set training.resume\n");
}

TEST(ResumedRun, IsRefusedIfAllItsCheckpointsAreDamaged) {
  const TemporaryFolder folder;
  const std::vector<std::string> sets = {"training.checkpoint_every_steps=5"};
  ASSERT_EQ(run(launch_in(folder.path(), with(sets, {"training.max_steps=11"}))).exit_code, 0);
  for (const std::string step : {"05", "10", "11"})
    std::filesystem::resize_file(folder.path() / ("checkpoints/step_000000" + step + "/model.safetensors"),
                                 100);
  const ProcessResult result =
      run(launch_in(folder.path(), with(sets, {"training.max_steps=30", "training.resume=auto"})));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("no checkpoint in checkpoint_dir 'checkpoints' can be used: to begin at step 0, move "
                        "them away, or name another folder"));
}

TEST(ResumedRun, SaysThatItStartsFreshWithoutACheckpoint) {
  const TemporaryFolder folder;
  const ProcessResult result =
      run(launch_in(folder.path(), {"training.max_steps=2", "training.resume=auto"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: no checkpoint in checkpoint_dir 'checkpoints': starting at step 0\n"));
}

TEST(ResumedRun, LocksItsCheckpointFolder) {
  const TemporaryFolder folder;
  const auto sets = with(kPowerSgd, {"training.checkpoint_every_steps=5"});
  testing::Process first(HOOKLINE_BINARY,
                         launch_in(folder.path(), with(sets, {"training.max_steps=1000000"})));
  ASSERT_TRUE(first.wait_for("after step 3"));
  const ProcessResult second = run(launch_in(folder.path(), with(sets, {"training.resume=auto"})));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err,
              ContainsRegex("hookline: error: checkpoint_dir 'checkpoints' is in use by another run "
                            "\\(process [0-9]+ on "));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 128 + SIGTERM);
  EXPECT_EQ(
      run(launch_in(folder.path(), with(sets, {"training.resume=auto", "training.max_steps=1"}))).exit_code,
      0);
}

TEST(ResumedRun, IsRefusedIfItsFolderOfCheckpointsCanNotBeMade) {
  const TemporaryFolder folder;
  folder.write("file", "");
  const ProcessResult result =
      run(launch_in(folder.path(), {"training.checkpoint_every_steps=5", "training.checkpoint_dir=file/in"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: checkpoint_dir 'file/in' can't be made: Not a directory: name another folder\n"
            "  checkpoint_dir: from command line --set training.checkpoint_dir\n");
}

TEST(ResumedRun, TrainsNoFurtherOnceFinished) {
  const TemporaryFolder folder;
  const auto sets = with(kPowerSgd, {"training.checkpoint_every_steps=1000", "training.max_steps=13"});
  const ProcessResult first = run(launch_in(folder.path(), sets));
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("checkpoint 'checkpoints/step_00000013' saved at step 13"));
  const ProcessResult again = run(launch_in(folder.path(), with(sets, {"training.resume=true"})));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("resuming from step 13: "),
                               HasSubstr("hookline: this run finished at step 13: it trains further only if "
                                         "the program asks for more steps\n"),
                               Not(HasSubstr("saved at step")), Not(HasSubstr("warning"))));
  EXPECT_EQ(ends_of(again), ends_of(first));
}

TEST(ResumedRun, SkipsADamagedCheckpoint) {
  const TemporaryFolder folder;
  const auto sets = std::vector<std::string>{"training.checkpoint_every_steps=5"};
  ASSERT_EQ(run(launch_in(folder.path(), with(sets, {"training.max_steps=15"}))).exit_code, 0);
  const auto checkpoints = folder.path() / "checkpoints";
  std::filesystem::resize_file(checkpoints / "step_00000015/optimizer.safetensors", 100);
  {
    std::fstream file(checkpoints / "step_00000010/rank_1.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7F');
  }
  const ProcessResult result =
      run(launch_in(folder.path(), with(sets, {"training.max_steps=30", "training.resume=auto"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("warning: the checkpoint 'checkpoints/step_00000015' is passed over: "
                              "'checkpoints/step_00000015/optimizer.safetensors' has 100 bytes where "),
                    HasSubstr("warning: the checkpoint 'checkpoints/step_00000010' is passed over: "
                              "'checkpoints/step_00000010/rank_1.safetensors' has changed since"),
                    HasSubstr("resuming from step 5: ")));
  EXPECT_EQ(ends_of(result), ends_without_a_stop({"training.max_steps=30"}));
  const ProcessResult named =
      run(launch_in(folder.path(), {"training.max_steps=30", "training.resume=checkpoints/step_00000030"}));
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(ends_of(named), ends_of(result));
}

TEST(FullDisk, FailsTheSaveAndNotTheRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "a small file system can't be mounted here (run as root)";
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "checkpoints");
  // Space for one checkpoint of about 0.3 MB and part of the next.
  ProcessOptions options =
      launch_in(folder.path(), {"training.max_steps=12", "training.checkpoint_every_steps=4"},
                {RESUMING_RANK_PROGRAM, "2000"});
  std::string command = HOOKLINE_BINARY;
  for (const std::string& argument : options.arguments) command += " " + argument;
  options.arguments = {"--mount", "sh", "-c",
                       "mount -t tmpfs -o size=500k none checkpoints && " + command +
                           "; echo exit code $?; ls checkpoints; " HOOKLINE_BINARY
                           " checkpoint verify checkpoints"};
  const ProcessResult result = testing::run_process("/usr/bin/unshare", options);
  EXPECT_THAT(result.out, AllOf(HasSubstr("exit code 0\nstep_00000004\ncheckpoints/step_00000004: good (")));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("error: the checkpoint 'checkpoints/step_00000008' was not saved"),
                    HasSubstr("can't be written: No space left on device"),
                    HasSubstr("error: the checkpoint 'checkpoints/step_00000012' was not saved")));
  EXPECT_EQ(ends_of(result), ends_without_a_stop({"training.max_steps=12"}, {RESUMING_RANK_PROGRAM, "2000"}));
}

}  // namespace
}  // namespace hookline
