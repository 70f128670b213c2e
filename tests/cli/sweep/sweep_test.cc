// `hookline sweep` as a user runs it, and how it handles misuse and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_hookline.h"
#include "cli/sweep/sweep_rows.h"
#include "support/sanitized.h"
#include "support/terminal.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lines_in;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::SizeIs;
using testing::Terminal;
using testing::timeless;
using Json = nlohmann::json;

/// A trial's metric is a function of its values; each start appends a line to starts.log.
const std::string kTrain =
    "echo \"$*\" >> starts.log\n"
    "n=$(echo \"$*\" | cksum | cut -d' ' -f1)\n"
    "for s in 1 2 3; do echo \"{\\\"step\\\": $s, \\\"score\\\": $((n % 1000 * s))}\" >> "
    "$HOOKLINE_RUN_DIR/metrics.jsonl; "
    "done\n";

const std::string kSweep =
    "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\ngoal = \"max\"\n"
    "[baseline]\nargs.a = 0\n"
    "[grid]\nargs.a = { from = 0, to = 4 }\nargs.b = [\"x\", \"y\"]\n";

TEST(Sweep, RunsEveryTrialAndKeepsTheBest) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write("base.toml", "[launch]\nprocesses_per_node = 2\n");
  sandbox.folder.write(
      "s.toml",
      "[sweep]\nprogram = [\"./train\", \"--lr={lr}\"]\nconfig = \"base.toml\"\nmetric = \"score\"\n"
      "goal = \"max\"\nseeds = [1, 2]\n[baseline]\nddp.comm_hook = \"no\"\nargs.lr = 1\n"
      "[grid]\nddp.comm_hook = [\"fp16\", \"bf16\"]\nddp.comm_wrapper = [\"no\", \"fp16\"]\n"
      "args.lr = [1, 2]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("hookline: warning: 4 combinations can't run, and are left out\n"
                      "  comm_hook=fp16 comm_wrapper=fp16 lr=1\n"
                      "    ddp.comm_wrapper=fp16: error: comm_wrapper \"fp16\" over comm_hook \"fp16\" would "
                      "cast the gradients twice\n"),
            HasSubstr("hookline: 10 trials; results in "),
            HasSubstr("hookline: [1/10] comm_hook=no seed=1 lr=1: "
                      "score ")));
  EXPECT_THAT(result.out, AllOf(::testing::ContainsRegex("baseline +2 +comm_hook=no lr=1\n"),
                                HasSubstr("comm_hook=fp16 comm_wrapper=no lr=2\n"),
                                HasSubstr("/hookline-sweeps/s/best.toml:\n  hookline launch --config ")));
  const std::string best = sandbox.read("hookline-sweeps/s/best.toml");
  EXPECT_THAT(best, HasSubstr("processes_per_node = 2"));
  EXPECT_EQ(sandbox.run({"config", "validate", "hookline-sweeps/s/best.toml"}).exit_code, 0) << best;

  // Each trial's folder holds its config, its launch's output, and its run.
  const ProcessResult plan = sandbox.run({"sweep", "s.toml", "--dry-run", "--json"});
  std::istringstream lines(plan.out);
  std::size_t trials = 0;
  for (std::string line; std::getline(lines, line); ++trials) {
    const std::string folder = "hookline-sweeps/s/trials/" + Json::parse(line).at("id").get<std::string>();
    EXPECT_TRUE(sandbox.has(folder + "/config.toml") && sandbox.has(folder + "/output.log") &&
                sandbox.has(folder + "/runs/latest/attempt_0/1/stdout.log"))
        << folder;
  }
  EXPECT_EQ(trials, 10u);
  // A second run repeats nothing.
  const ProcessResult again = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("hookline: 10 trials, 10 of them ended in earlier runs; results in "));
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(lines_in(sandbox.read("starts.log")), 20u);  // ten trials of two ranks each
}

TEST(Sweep, ResumesFromWhereverItIsKilled) {
  constexpr std::size_t kLast = testing::kSanitized ? 5 : 20, kKills = testing::kSanitized ? 10 : 50;
  const std::string train = kTrain + "sleep 0.05\n";  // slow enough for all kills
  const std::string many = "[sweep]\nmax_parallel = 2\n" + kSweep.substr(kSweep.find('\n') + 1) +
                           "args.c = { from = 1, to = " + std::to_string(kLast) + " }\n";
  const Sandbox undisturbed, sandbox;
  for (const Sandbox* each : {&undisturbed, &sandbox}) {
    each->script("train", train);
    each->folder.write("s.toml", many);
  }
  const ProcessResult whole = undisturbed.run({"sweep", "s.toml", "--json"});
  const auto expected = timeless(whole.out);
  ASSERT_THAT(expected, SizeIs(10 * kLast + 1));
  std::smatch count;
  ASSERT_TRUE(std::regex_search(whole.err, count, std::regex("hookline: ([0-9]+) trials; results in ")))
      << whole.err;
  const std::size_t trials = std::stoul(count[1]);
  ASSERT_GT(trials, expected.size()) << "the baseline runs several times";

  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto sleep_up_to = [&](unsigned milliseconds) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (1000 * milliseconds)));
  };
  std::size_t kills = 0, starts = 0;
  for (; kills < kKills; ++kills) {
    Process sweep(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml", "--json"}));
    if (kills % 2) {  // after a trial has started, however slow the machine is
      ASSERT_TRUE(testing::eventually(
          [&] { return sandbox.has("starts.log") && lines_in(sandbox.read("starts.log")) > starts; }));
      sleep_up_to(10);
    } else {
      sleep_up_to(100);
    }
    sweep.signal(SIGKILL);
    sweep.wait();
    if (sandbox.has("starts.log")) starts = lines_in(sandbox.read("starts.log"));
    if (!sandbox.has("hookline-sweeps/s/state.sqlite")) continue;
    const ProcessResult report = sandbox.run({"report", "hookline-sweeps/s"});
    EXPECT_EQ(report.exit_code, 0) << "after every kill, the state's checksums are right: " << report.err;
  }
  const ProcessResult result = sandbox.run({"sweep", "s.toml", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(timeless(result.out), expected);
  EXPECT_THAT(result.err,
              ::testing::ContainsRegex("hookline: " + count.str(1) +
                                       " trials(, [0-9]+ of them ended in earlier runs)?; results in "));
  EXPECT_THAT(result.err, Not(HasSubstr(count.str(1) + " of them ended in earlier runs")))
      << "no kill came too late";
  starts = lines_in(sandbox.read("starts.log"));
  EXPECT_GT(starts, trials) << "trials were running when it was killed";
  EXPECT_LE(starts, trials + 2 * kills) << "only trials that were running at a kill started again";
}

TEST(Sweep, StopsItsTrialsWhenItIsKilled) {
  const Sandbox sandbox;
  sandbox.script("train", "echo $$ > rank.pid\nsleep 1000\n");
  sandbox.folder.write("s.toml", kSweep);
  Process sweep(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml"}));
  ASSERT_TRUE(
      testing::eventually([&] { return sandbox.has("rank.pid") && !sandbox.read("rank.pid").empty(); }));
  const pid_t rank = std::stoi(sandbox.read("rank.pid"));
  sweep.signal(SIGKILL);
  EXPECT_TRUE(testing::eventually([&] { return !testing::is_running(rank); }));
}

TEST(Sweep, StopsOnASignalAndResumes) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain + "[ -e go ] || sleep 1000\n");
  sandbox.folder.write("s.toml", kSweep);
  Process sweep(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml"}));
  // The shell creates the file before it writes the line.
  ASSERT_TRUE(testing::eventually(
      [&] { return sandbox.has("starts.log") && lines_in(sandbox.read("starts.log")) == 1; }));
  sweep.signal(SIGINT);
  const ProcessResult stopped = sweep.wait();
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT);
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("hookline: stopping 1 trial\n"),
                                 HasSubstr("hookline: stopped after 0 of 12 trials; the same 'hookline "
                                           "sweep' command continues from there\n")));
  EXPECT_FALSE(sandbox.has("hookline-sweeps/s/best.toml"));
  sandbox.folder.write("go", "");
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 0);
  EXPECT_EQ(lines_in(sandbox.read("starts.log")), 13u);
}

TEST(Sweep, SaysToResumeWithoutTheRerunFlag) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write("s.toml", kSweep);
  ASSERT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 0);
  const std::string plan = sandbox.run({"sweep", "s.toml", "--dry-run"}).out;
  sandbox.script("train", kTrain + "touch again\nsleep 1000\n");
  Process sweep(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml", "--rerun", plan.substr(0, 12)}));
  ASSERT_TRUE(testing::eventually([&] { return sandbox.has("again"); }));
  sweep.signal(SIGINT);
  EXPECT_THAT(sweep.wait().err,
              HasSubstr("hookline: stopped after 11 of 12 trials; the same 'hookline sweep' command, without "
                        "--rerun, continues from there\n"));
}

TEST(Sweep, IsSuspendedWithItsTrials) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "for i in $(seq 20); do date +%s >> beats.log; sleep 0.05; done\n"
                 "echo '{\"score\": 1}' >> $HOOKLINE_RUN_DIR/metrics.jsonl\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\nmax_parallel = 2\n"
                       "trial_limit_seconds = 20\n[grid]\nargs.a = [1, 2]\n");
  const auto begun = std::chrono::steady_clock::now();
  Process sweep(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml", "--json"}));
  ASSERT_TRUE(testing::eventually(
      [&] { return sandbox.has("beats.log") && lines_in(sandbox.read("beats.log")) > 2; }));
  sweep.signal(SIGTSTP);
  ASSERT_TRUE(testing::eventually([&] { return testing::state_of(sweep.pid()) == 'T'; }));
  const std::size_t beats = lines_in(sandbox.read("beats.log"));
  constexpr double kPause = 2;
  std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
  EXPECT_EQ(lines_in(sandbox.read("beats.log")), beats) << "its trials stand still too";
  sweep.signal(SIGCONT);
  const ProcessResult result = sweep.wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines_in(sandbox.read("beats.log")), 40u);
  std::istringstream rows(result.out);
  for (std::string row; std::getline(rows, row);)
    EXPECT_LT(Json::parse(row).at("trial_seconds").at("mean"), took.count() - kPause + 0.001) << row;
}

TEST(Sweep, LocksItsFolder) {
  const Sandbox sandbox;
  sandbox.script("train", "touch started\nuntil [ -e go ]; do sleep 0.01; done\n" + kTrain);
  sandbox.folder.write("s.toml", kSweep);
  Process first(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml"}));
  ASSERT_TRUE(testing::eventually([&] { return sandbox.has("started"); }));
  const ProcessResult second = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err, AllOf(HasSubstr("hookline: error: the sweep's folder '"),
                                HasSubstr("/hookline-sweeps/s' is in use by another run (process " +
                                          std::to_string(first.pid()) + " on ")));
  sandbox.folder.write("go", "");
  EXPECT_EQ(first.wait().exit_code, 0);
}

TEST(Sweep, RunsOnlyTheNewGridPointsOfAChangedFile) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[grid]\nargs.a = [1, 2, 3]\n");
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 0);
  sandbox.folder.write(
      "s.toml", "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[grid]\nargs.a = [3, 4, 1, 5]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: 4 trials, 2 of them ended in earlier runs; results in "),
                    HasSubstr("hookline: the sweep has changed: 2 trials are new, 1 trial is no longer "
                              "part of it\n")));
  EXPECT_EQ(sandbox.read("starts.log"), "--a 1\n--a 2\n--a 3\n--a 4\n--a 5\n");
  EXPECT_THAT(timeless(result.out), SizeIs(4));
}

TEST(Sweep, RunsThePlanEvenIfTheFilesChange) {
  const Sandbox sandbox;
  sandbox.folder.write("base.toml", "[training]\nmax_steps = 10\n");
  sandbox.script(
      "train", kTrain +
                   "grep max_steps $HOOKLINE_RUN_DIR/resolved.toml | cut -d'#' -f1 | tr -d ' ' >> steps.log\n"
                   "echo '[training]\nmax_steps = 77' > base.toml\n");
  const std::string sweep =
      "[sweep]\nprogram = [\"./train\"]\nconfig = \"base.toml\"\nmetric = \"score\"\nbudget_trials = ";
  const std::string grid = "\n[grid]\nargs.a = [1, 2, 3]\n";
  sandbox.folder.write("s.toml", sweep + "2" + grid);
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 0);
  EXPECT_EQ(sandbox.read("steps.log"), "max_steps=10\nmax_steps=10\n");
  EXPECT_THAT(sandbox.read("hookline-sweeps/s/best.toml"), HasSubstr("max_steps = 10\n"));
  // Settings that resolve to the same values are the same trial, however they are written.
  sandbox.folder.write("s.toml", sweep + "3\n[fixed]\ntraining.max_steps = 10" + grid);
  const ProcessResult result = sandbox.run({"sweep", "s.toml", "--json"});
  EXPECT_THAT(result.err, HasSubstr("hookline: 3 trials, 2 of them ended in earlier runs; "));
  EXPECT_EQ(sandbox.read("steps.log"), "max_steps=10\nmax_steps=10\nmax_steps=10\n");
}

TEST(Sweep, OrdersRowsByTheCurrentMetric) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "for step in 1 2; do echo \"{\\\"step\\\": $step, \\\"loss\\\": $2, \\\"accuracy\\\": 0.$2, "
                 "\\\"drift\\\": $((step * $2))}\" >> $HOOKLINE_RUN_DIR/metrics.jsonl; done\n"
                 "echo . >> starts.log\n");
  const auto best = [&](const std::string& metric) {
    sandbox.folder.write("s.toml",
                         "[sweep]\nprogram = [\"./train\"]\n" + metric + "\n[grid]\nargs.a = [1, 2]\n");
    const ProcessResult result = sandbox.run({"sweep", "s.toml", "--json"});
    return result.exit_code == 0 ? timeless(result.out)[0] : Json(result.exit_code);
  };
  EXPECT_EQ(best("metric = \"loss\"").at("metric").at("mean"), 1);
  EXPECT_EQ(best("metric = \"accuracy\"\ngoal = \"max\"").at("metric").at("mean"), 0.2);
  EXPECT_EQ(best("metric = \"speed\""), 1);
  EXPECT_EQ(best("metric = \"loss\"\ngoal = \"max\"").at("metric").at("mean"), 2);
  EXPECT_EQ(best("metric = \"drift\"").at("metric").at("mean"), 2) << "its last value";
  EXPECT_EQ(best("metric = \"drift\"\nmetric_value = \"best\"").at("metric").at("mean"), 1);
  EXPECT_EQ(best("metric = \"drift\"\nmetric_value = \"best\"\ngoal = \"max\"").at("metric").at("mean"), 4);
  EXPECT_EQ(lines_in(sandbox.read("starts.log")), 2u);
}

TEST(Sweep, WritesAValidBestConfigForAnyArguments) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[grid]\n"
                       "args.a = [\"x\\ry\\u001b'\\\\\\nz\"]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string command = "./train --a $'x\\ry\\033\\'\\\\\\nz'\n";
  EXPECT_THAT(result.out, HasSubstr(command));
  EXPECT_THAT(sandbox.read("hookline-sweeps/s/best.toml"), HasSubstr("#   " + command));
  EXPECT_EQ(sandbox.run({"config", "validate", "hookline-sweeps/s/best.toml"}).exit_code, 0);
}

TEST(Sweep, GivesEachTrialFoldersOfItsOwn) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "mkdir -p $(sed -n 's/^checkpoint_dir = \"\\([^\"]*\\)\".*/\\1/p' "
                 "$HOOKLINE_RUN_DIR/resolved.toml)/step_00000001\n" +
                     kTrain);
  sandbox.folder.write(
      "s.toml",
      "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[fixed]\ntraining.checkpoint_every_steps = 5\n"
      "training.record_gradients = \"rec\"\n[grid]\nargs.a = [1, 2]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(sandbox.has("rec") || sandbox.has("checkpoints"));
  EXPECT_THAT(sandbox.read("hookline-sweeps/s/best.toml"),
              AllOf(HasSubstr("\"rec\""), Not(HasSubstr("/trials/"))));
  EXPECT_THAT(result.out, ::testing::ContainsRegex(
                              "/best[.]toml --set training[.]checkpoint_dir=checkpoints-[0-9a-f]+ --set "
                              "training[.]record_gradients=gradients-[0-9a-f]+ [.]/train --a [12]\n"));
}

TEST(Sweep, SaysWhyEachTrialFailed) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      "case $2 in\n"
      "  exits) exit 3;;\n"
      "  nan) echo '{\"step\": 4, \"loss\": NaN}' >> $HOOKLINE_RUN_DIR/metrics.jsonl;;\n"
      "  pipe) rm -f $HOOKLINE_RUN_DIR/metrics.jsonl; mkfifo $HOOKLINE_RUN_DIR/metrics.jsonl;;\n"
      "  other) echo '{\"step\": 1, \"accuracy\": 1, \"rate\": 2}' >> $HOOKLINE_RUN_DIR/metrics.jsonl;;\n"
      "  hangs) sleep 1000;;\n"
      "  fine) echo '{\"step\": 1, \"loss\": 1}' >> $HOOKLINE_RUN_DIR/metrics.jsonl;;\n"
      "esac\n");
  const std::string rest =
      "program = [\"./train\"]\nmetric = \"loss\"\ntrial_limit_seconds = 8\n[grid]\n"
      "args.how = [\"exits\", \"nan\", \"pipe\", \"other\", \"silent\", \"hangs\", \"fine\"]\n";
  sandbox.folder.write("s.toml", "[sweep]\n" + rest);
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 1);
  for (const char* line :
       {"how=exits: failed after ", ": rank 0 exited with code 3\n",
        ": its 'loss' is not a number at step 4\n", ": it never logged 'loss'; it logged accuracy, rate\n",
        ": it never logged 'loss'; it logged no metric\n",
        "/metrics.jsonl' can't be read: it is a named pipe",
        ": it was not done after 8 s (trial_limit_seconds)\n", "] how=fine: loss 1, "})
    EXPECT_THAT(result.err, HasSubstr(line));
  EXPECT_THAT(result.out, AllOf(HasSubstr("0, 1 failed  how=exits\n"), HasSubstr("/best.toml:\n")));

  // Failed trials run again only on request; their files are kept.
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 1);
  sandbox.script("train", "echo '{\"step\": 1, \"loss\": 2}' >> $HOOKLINE_RUN_DIR/metrics.jsonl\n");
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 1);
  const ProcessResult retried = sandbox.run({"sweep", "s.toml", "--retry-failed", "--json"});
  EXPECT_EQ(retried.exit_code, 0) << retried.err;
  EXPECT_THAT(retried.err, HasSubstr("hookline: 7 trials, 1 of them ended in earlier runs; results in "));
  std::size_t kept = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(sandbox.folder.path() / "hookline-sweeps/s/trials"))
    kept += entry.path().extension() == ".1";
  EXPECT_EQ(kept, 6u);
  const std::string id = timeless(retried.out)[0].at("best_id");
  const ProcessResult rerun = sandbox.run({"sweep", "s.toml", "--rerun", id.substr(0, 8)});
  EXPECT_THAT(rerun.err, HasSubstr("hookline: 7 trials, 6 of them ended in earlier runs; results in "));
  const ProcessResult unknown = sandbox.run({"sweep", "s.toml", "--rerun", id, "--rerun", "zzz"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err,
            "hookline: error: --rerun 'zzz' names no trial of this sweep; --dry-run lists their ids\n"
            "  see: hookline sweep --help\n");
  EXPECT_THAT(sandbox.run({"sweep", "s.toml"}).err,
              HasSubstr("hookline: 7 trials, 7 of them ended in earlier runs; results in "));
}

TEST(Sweep, StopsAfterAFailureOnRequest) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain + "[ \"$2\" != 2 ]\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nfailed = \"stop\"\n[grid]\nargs.a = [1, 2, 3]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: no further trial is begun: a trial has failed, and failed = \"stop\"\n"));
  EXPECT_EQ(sandbox.read("starts.log"), "--a 1\n--a 2\n");
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 1) << "it has failed before";
  EXPECT_EQ(sandbox.read("starts.log"), "--a 1\n--a 2\n");
}

TEST(Sweep, StaysWithinItsBudget) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  const auto budget = [&](const std::string& key) {
    sandbox.folder.write("s.toml",
                         "[sweep]\nprogram = [\"./train\"]\n" + key + "\n[grid]\nargs.a = [1, 2, 3, 4]\n");
    return sandbox.run({"sweep", "s.toml"});
  };
  const ProcessResult two = budget("budget_trials = 2");
  EXPECT_EQ(two.exit_code, 0);
  EXPECT_THAT(two.err,
              HasSubstr("hookline: no further trial is begun: budget_trials is used up: 2 trials\n"));
  EXPECT_EQ(sandbox.read("starts.log"), "--a 1\n--a 2\n");
  EXPECT_THAT(budget("budget_seconds = 0.001").err,
              HasSubstr("budget_seconds is used up: trials have run for "));
  EXPECT_EQ(sandbox.read("starts.log"), "--a 1\n--a 2\n");
}

TEST(Sweep, StopsHopelessTrials) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "for s in 1 2 3 4 5; do echo \"{\\\"step\\\": $s, \\\"score\\\": $2}\" >> "
                 "$HOOKLINE_RUN_DIR/metrics.jsonl; done\n[ $2 -gt 1 ] || exec sleep 1000\n");
  for (const std::string rule : {"median", "halving"}) {
    sandbox.folder.write(
        rule + ".toml",
        "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\ngoal = \"max\"\nearly_stopping = \"" + rule +
            "\"\nearly_stopping_from = 3\n[grid]\nargs.score = [9, 8, 7, 1]\n");
    const ProcessResult result = sandbox.run({"sweep", rule + ".toml"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("[4/4] score=1: stopped after "),
                      HasSubstr(rule == "median"
                                    ? ": at step 5 its best is 1, and the median of 3 others is 8\n"
                                    : ": at step 3, 3 of 4 trials were better, and only 1 may continue\n")));
    EXPECT_THAT(result.out, HasSubstr("0, 1 stopped  score=1\n"));
  }
}

TEST(Sweep, RerunsTrialsThatWereStoppedForAnotherGoal) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "for s in 1 2 3 4; do echo \"{\\\"step\\\": $s, \\\"score\\\": $2}\" >> "
                 "$HOOKLINE_RUN_DIR/metrics.jsonl; done\n[ $2 -gt 1 ] || [ -e go ] || exec sleep 1000\n");
  const auto run = [&](const std::string& goal, const std::string& rule) {
    sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\ngoal = \"" + goal +
                                       "\"\nearly_stopping = \"" + rule +
                                       "\"\nearly_stopping_from = 3\n[grid]\nargs.score = [9, 8, 7, 1]\n");
    return sandbox.run({"sweep", "s.toml"});
  };
  EXPECT_THAT(run("max", "median").out, HasSubstr("0, 1 stopped  score=1\n"));
  EXPECT_THAT(run("max", "median").err, HasSubstr("hookline: 4 trials, 4 of them ended in earlier runs; "));
  sandbox.folder.write("go", "");
  std::string file = sandbox.read("s.toml");
  file.replace(file.find("median"), 6, "halving");
  sandbox.folder.write("s.toml", file);
  EXPECT_EQ(sandbox.run({"sweep", "s.toml", "--rerun", "nope"}).exit_code, 2) << "and nothing is changed";
  const ProcessResult result = run("min", "median");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: 1 trial runs again: it was stopped early by another rule, metric or "
                              "goal than the file's\n"),
                    HasSubstr("hookline: 4 trials, 3 of them ended in earlier runs; ")));
  EXPECT_THAT(sandbox.read("hookline-sweeps/s/best.toml"), HasSubstr("  ./train --score 1\n"));
}

TEST(Sweep, ComparesWithTrialsThatHalvingStopped) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "for s in 1 2 3; do echo \"{\\\"step\\\": $s, \\\"score\\\": $2}\" >> "
                 "$HOOKLINE_RUN_DIR/metrics.jsonl; done\n[ $2 -gt 1 ] && exec sleep 0.5\nexec sleep 1000\n");
  const auto write = [&](const std::string& scores) {
    sandbox.folder.write("s.toml",
                         "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\ngoal = \"max\"\n"
                         "early_stopping = \"halving\"\nearly_stopping_from = 3\n[grid]\nargs.score = [" +
                             scores + "]\n");
    return sandbox.run({"sweep", "s.toml"});
  };
  EXPECT_THAT(write("100, 90, 80, 1, 0").err, HasSubstr("[5/5] score=0: stopped after "));
  // Of six trials, the best third (two) may continue, and only one beats the new trial. If the two stopped
  // trials did not count, only the best of four could continue.
  EXPECT_THAT(write("100, 90, 80, 1, 0, 95").err, HasSubstr("[6/6] score=95: score 95, "));
}

TEST(Sweep, DividesCoresAmongParallelTrials) {
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  const int cores = CPU_COUNT(&own);
  if (cores < 2) GTEST_SKIP() << "one core here";
  const Sandbox sandbox;
  // Each trial waits for the other.
  sandbox.script("train",
                 "touch here$2\nuntil [ -e here$((3 - $2)) ]; do sleep 0.01; done\ncores=$(taskset -pc $$ | "
                 "sed 's/.*: //')\n"
                 "echo \"$cores\" > cores$2\n"
                 "echo \"{\\\"step\\\": 1, \\\"cores\\\": $(nproc)}\" >> $HOOKLINE_RUN_DIR/metrics.jsonl\n");
  sandbox.folder.write(
      "s.toml",
      "[sweep]\nprogram = [\"./train\"]\nmetric = \"cores\"\nmax_parallel = 2\n[grid]\nargs.a = [1, 2]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const Json& row : timeless(result.out)) EXPECT_EQ(row.at("metric").at("mean"), cores / 2);
  EXPECT_NE(sandbox.read("cores1"), sandbox.read("cores2"));
}

TEST(Sweep, ListsWhatItWouldRun) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write(
      "s.toml",
      "[sweep]\nprogram = [\"./train\", \"{b}\"]\n[baseline]\nargs.b = 1\n[grid]\nargs.b = [1, 2]\n");
  ProcessResult result = sandbox.run({"sweep", "s.toml", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.out,
      ::testing::MatchesRegex(
          "[0-9a-f]{12}  b=1  .baseline.\n[0-9a-f]{12}  b=2\n[0-9a-f]{12}  b=1  .baseline.\n3 trials\n"
          "The baseline runs again as the third trial: the first trial alone, on a cold machine, would make "
          "the others look faster than they are.\n"));
  result = sandbox.run({"sweep", "s.toml", "--dry-run", "--json"});
  const Json first = Json::parse(result.out.substr(0, result.out.find('\n')));
  EXPECT_THAT(first.at("program"), ElementsAre("./train", "1"));
  EXPECT_EQ(first.at("baseline"), true);
  EXPECT_EQ(first.at("id").get<std::string>().size(), 12u);
  EXPECT_FALSE(sandbox.has("hookline-sweeps") || sandbox.has("starts.log"));
}

TEST(Sweep, RefusesWhatCanNotRun) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  const std::string half = "[grid]\nddp.comm_hook = \"fp16\"\nddp.comm_wrapper = [\"no\", \"fp16\"]\n";
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\ninvalid = \"refuse\"\n" + half);
  ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("hookline: warning: 1 combination can't run (invalid = \"refuse\")\n"));
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\n[grid]\nddp.comm_hook = [\"fp61\", \"fp62\"]\n");
  result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("hookline: error: none of the trials in 's.toml' can run\n"));
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\n[grid]\nddp.comm_hook = \"power_sgd\"\n"
                       "ddp.comm_state_option.matrix_approximation_rank = [0, 1]\n");
  result = sandbox.run({"sweep", "s.toml", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: 1 combination can't run, and is left out\n"
                        "  comm_hook=power_sgd matrix_approximation_rank=0\n"
                        "    ddp.comm_state_option.matrix_approximation_rank=0: error: bad value \"0\" for "
                        "'matrix_approximation_rank' in [ddp.comm_state_option]\n"
                        "      must be an integer, at least 1\n"));
  EXPECT_THAT(result.out, HasSubstr("1 trial\n"));
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\n[baseline]\nddp.comm_hook = \"fp61\"\n"
                       "[grid]\nargs.a = [1, 2]\n");
  result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: error: the baseline can't run, "),
                                HasSubstr("ddp.comm_hook=fp61: error: ")));
  for (const std::string flag : {"--retry-failed", "--rerun=ab"}) {
    result = sandbox.run({"sweep", "s.toml", "--dry-run", flag});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(flag.substr(0, flag.find('=')) +
                                      " and --dry-run don't go together: --dry-run shows the plan alone\n"));
  }
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\nconfig = \"none.toml\"\n" + half);
  EXPECT_THAT(sandbox.run({"sweep", "s.toml"}).err, HasSubstr("none.toml"));
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\n[grid]\nlaunch.nnodes = [\"2\"]\n"
                       "rendezvous.main_address = \"10.0.0.1\"\n");
  EXPECT_THAT(sandbox.run({"sweep", "s.toml"}).err,
              HasSubstr("a trial runs on one node: launch.nnodes must be 1\n"));
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./none\"]\n" + half);
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 127);
  EXPECT_EQ(sandbox.run({"sweep", "none.toml"}).exit_code, 2);
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n[grid]\nlaunch.device = \"cuda\"\n");
  EXPECT_THAT(sandbox.run({"sweep", "s.toml"}).err,
              HasSubstr("\n    it needs a GPU, and there is no GPU here"));
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n" + half);
  sandbox.folder.write("out/state.sqlite",
                       "this is not a database, though it is long enough to be taken for one at first");
  result = sandbox.run({"sweep", "s.toml", "--output", "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("hookline: error: the state of the sweep, '"),
            HasSubstr("/out/state.sqlite', is damaged: SQLite can't read it: file is not a database; run "
                      "the sweep with --repair: ")));
  EXPECT_FALSE(sandbox.has("starts.log"));
}

TEST(Sweep, ShowsLiveProgress) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain + "sleep 0.5\n");
  sandbox.folder.write("s.toml", kSweep);
  Terminal terminal(HOOKLINE_BINARY, sandbox.options({"sweep", "s.toml"}));
  EXPECT_TRUE(terminal.shows("0/12 trials | a=0 step 3 score ")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("[1/12] a=0: score ")) << terminal.screen();
  EXPECT_TRUE(terminal.shows(" s left | ")) << terminal.screen();
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST(Sweep, TakesATrialThatPrintsAGigabyte) {
  const Sandbox sandbox;
  // A sanitizer checks each access and is slow, so less output must suffice.
  sandbox.script("train", std::string("head -c ") + (testing::kSanitized ? "100000000" : "1000000000") +
                              " /dev/zero\n" + kTrain);
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[grid]\nargs.a = 1\n");
  ProcessOptions options = sandbox.options({"sweep", "s.toml"});
  options.limit = std::chrono::minutes(5);
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(result.out.size() + result.err.size(), 10'000u);
}

TEST(Sweep, ReportsUnreadableMetricsOfATrial) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "echo '{\"step\": 1, \"score\": 1}' >> $HOOKLINE_RUN_DIR/metrics.jsonl\n"
                 "(printf '{\"step\": 2, \"score\": 2, \"text\": \"'; head -c 2000000 /dev/zero | tr '\\0' "
                 "x; echo '\"}') "
                 ">> $HOOKLINE_RUN_DIR/metrics.jsonl\n"
                 "(printf '{\"step_seconds\": 1, \"deep\": '; head -c 3000000 /dev/zero | tr '\\0' '['; "
                 "head -c 3000000 /dev/zero | tr '\\0' ']'; printf '}') > $HOOKLINE_RUN_DIR/summary.json\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[grid]\nargs.a = [1, 2]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const std::string a : {"1", "2"}) {
    const std::string start = "hookline: warning: a=" + a + ": ";
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(start + "line 2 of '"),
                      HasSubstr("/runs/latest/metrics.jsonl' is longer than 1 MiB: what it logs is lost\n"),
                      HasSubstr("/runs/latest/summary.json' can't be read: it nests more than 64 deep: the "
                                "trial's measures are missing from the results\n"),
                      HasSubstr("] a=" + a + ": score 1, ")));
  }
}

TEST(Sweep, IsNotSlowedByTerabyteFiles) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "echo '{\"step\": 1, \"score\": 1}' > $HOOKLINE_RUN_DIR/metrics.jsonl\n"
                 "truncate -s 4T $HOOKLINE_RUN_DIR/metrics.jsonl $HOOKLINE_RUN_DIR/../../output.log\n"
                 "[ $2 = 1 ] || exit 3\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n[grid]\nargs.a = [1, 2]\n");
  ProcessOptions options = sandbox.options({"sweep", "s.toml"});
  options.limit = std::chrono::minutes(1);
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: warning: a=1: '"),
                    HasSubstr("/runs/latest/metrics.jsonl' is larger than 1 GiB: what it logs beyond "
                              "that is lost\n"),
                    HasSubstr("] a=1: score 1, "), HasSubstr("it exited with code 3\n")));
}

TEST(Sweep, LosesNothingToAFullDisk) {
  if (geteuid() != 0) GTEST_SKIP() << "a small file system can't be mounted here (run as root)";
  const Sandbox sandbox;
  sandbox.script("train", kTrain + "head -c 60000 /dev/zero > $HOOKLINE_RUN_DIR/model\n");
  sandbox.folder.write("s.toml", kSweep);
  std::filesystem::create_directory(sandbox.folder.path() / "out");
  ProcessOptions options = sandbox.options({"--mount", "sh", "-c",
                                            "mount -t tmpfs -o size=600k none out && " HOOKLINE_BINARY
                                            " sweep s.toml --output out; echo code $?\n"
                                            "mount -o remount,size=60m out && " HOOKLINE_BINARY
                                            " sweep s.toml --output out --retry-failed --json"});
  const ProcessResult result = testing::run_process("/usr/bin/unshare", options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::size_t code = result.out.find("code 1\n");
  ASSERT_NE(code, std::string::npos) << result.out << result.err;
  EXPECT_THAT(result.err, ::testing::ContainsRegex("database or disk is full|No space left on device"));
  const auto rows = timeless(result.out.substr(code + 7));
  const Sandbox undisturbed;
  undisturbed.script("train", kTrain);
  undisturbed.folder.write("s.toml", kSweep);
  EXPECT_EQ(rows, timeless(undisturbed.run({"sweep", "s.toml", "--json"}).out));
}

TEST(Sweep, AddsLittleToAShortTrial) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer takes most of the time";
  const Sandbox sandbox;
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"/bin/true\"]\n[grid]\nargs.a = { from = 1, to = 200 }\n");
  ProcessOptions options = sandbox.options({"sweep", "s.toml"});
  options.limit = std::chrono::minutes(5);
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hookline: [200/200] a=200: "));
  // Typically 10 to 60 ms each. A pause between trials, or work proportional to finished trials, would exceed
  // the limit.
  EXPECT_LT(took.count() / 200, 0.3);
}

TEST(Sweep, GivesEachParallelTrialItsOwnPort) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "echo $MASTER_PORT > port.$2\nuntil [ -e port.1 ] && [ -e port.2 ]; do sleep 0.05; done\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmax_parallel = 2\ntrial_limit_seconds = 60\n"
                       "[grid]\nargs.a = [1, 2]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(sandbox.read("port.1"), ::testing::MatchesRegex("[0-9]+\n"));
  EXPECT_NE(sandbox.read("port.1"), sandbox.read("port.2"));
}

TEST(Sweep, ReportsAFixedValueAsSharedOnlyIfTheBaselineHasItToo) {
  const Sandbox sandbox;
  sandbox.script("train", "true");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\n[fixed]\nargs.a = 1\nargs.b = 1\n[baseline]\n"
                       "args.b = 2\n[grid]\nargs.c = [1]\n");
  const ProcessResult sweep = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_THAT(sweep.err, AllOf(HasSubstr("] b=2: "), HasSubstr("] b=1 c=1: ")));
  const ProcessResult report = sandbox.run({"report", "hookline-sweeps/s", "--output", "-"});
  EXPECT_THAT(report.out, HasSubstr("\"same\":{\"args.a\":\"1\"}")) << report.err;
}

TEST(Sweep, WarnsOfVariablesThatTrialsDoNotGet) {
  const Sandbox sandbox;
  sandbox.script("train", "env > env");
  sandbox.folder.write(
      "s.toml",
      "[sweep]\nprogram = [\"./train\"]\n[fixed]\nlaunch.processes_per_node = 1\n[grid]\nargs.a = [1]\n");
  ProcessOptions options = sandbox.options({"sweep", "s.toml"});
  options.environment["HOOKLINE_LAUNCH"] = "{processes_per_node = 2}";
  options.environment["HOOKLINE_LOGGING__LEVEL"] = "debug";
  options.environment["HOOKLINE_PROFILE"] = "fast";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: a sweep ignores HOOKLINE_LAUNCH, HOOKLINE_LOGGING__LEVEL "
                        "and HOOKLINE_PROFILE: its trials depend on its file alone, where [fixed] "
                        "holds what all of them share\n"));
  EXPECT_THAT(sandbox.read("env"),
              AllOf(HasSubstr("WORLD_SIZE=1\n"), Not(HasSubstr("HOOKLINE_LAUNCH=")),
                    Not(HasSubstr("HOOKLINE_LOGGING")), Not(HasSubstr("HOOKLINE_PROFILE"))));
}

TEST(Sweep, WarnsOfSettingsThatNoRankHasRead) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n"
                       "[grid]\nddp.comm_hook = [\"no\", \"fp16\"]\n");
  const std::string at_start =
      "hookline: warning: './train' is a script: unless it uses hookline's library or starts a program that "
      "does, "
      "ddp.comm_hook has no effect. If rows differ in nothing else, their results differ only by chance\n";
  EXPECT_THAT(sandbox.run({"sweep", "s.toml", "--dry-run"}).err, HasSubstr(at_start));
  const std::string at_end =
      "hookline: warning: no rank of any trial has read its config, which hookline's library reads in "
      "Accelerator::from_env and, in Python, in hookline.apply: so ddp.comm_hook had no effect. If rows "
      "differ in nothing else, their results differ only by chance\n";
  EXPECT_THAT(sandbox.run({"sweep", "s.toml"}).err, AllOf(HasSubstr(at_start), HasSubstr(at_end)));
  // One rank that reads the config is enough.
  sandbox.script("train", kTrain + ": > $HOOKLINE_RUN_DIR/config_read\n");
  const ProcessResult read = sandbox.run({"sweep", "s.toml", "--output", "read"});
  EXPECT_THAT(read.err, Not(HasSubstr("no rank of any trial")));
}

TEST(Sweep, WarnsUpFrontThatAHookWouldNeverStart) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\nseeds = [1, 2]\n"
                       "[fixed]\ntraining.max_steps = 20\nddp.comm_hook = \"power_sgd\"\n"
                       "[grid]\nddp.comm_state_option.start_powerSGD_iter = [10, 20]\n");
  const std::string warning =
      "hookline: warning: 1 combination has a hook that would compress nothing before its trials end\n"
      "  start_powerSGD_iter=20\n"
      "    power_sgd would never start: start_powerSGD_iter is 20 and max_steps 20: no step is left to "
      "compress\n";
  EXPECT_THAT(sandbox.run({"sweep", "s.toml", "--dry-run"}).err, HasSubstr(warning));
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_LT(result.err.find(warning), result.err.find("4 trials; results in")) << result.err;
}

TEST(Sweep, WarnsAfterwardsThatAHookCompressedNothing) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "echo '{\"score\": 1}' > $HOOKLINE_RUN_DIR/metrics.jsonl\n"
                 "echo \"{\\\"bytes_per_step\\\": $2, \\\"uncompressed_bytes_per_step\\\": 4000}\" "
                 "> $HOOKLINE_RUN_DIR/summary.json\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\nseeds = [1, 2]\n"
                       "[fixed]\nddp.comm_hook = \"power_sgd\"\n[grid]\nargs.b = [4000, 100]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "hookline: warning: 1 combination has a hook that has compressed nothing, since the trials ended "
          "before the hook began: only chance sets the results apart from those without a hook\n"
          "  b=4000\n"
          "    start_powerSGD_iter is 1000: make it smaller, or the trials longer\n"));
}

TEST(Sweep, TakesRepeatedStepsFromTheLastAttempt) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      "n=$TORCHELASTIC_RESTART_COUNT\n"
      "log() { echo \"{\\\"step\\\": $1, \\\"score\\\": $2}\" >> $HOOKLINE_RUN_DIR/metrics.jsonl; }\n"
      "if [ $n = 0 ]; then log 1 5; log 2 9; log 3 8; exit 3; fi\n"
      "log 2 6; log 3 7\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\ngoal = \"max\"\n"
                       "metric_value = \"best\"\n[fixed]\nlaunch.max_restarts = 1\n"
                       "launch.restart_delay_seconds = 0.01\n[grid]\nargs.a = [1]\n");
  const ProcessResult result = sandbox.run({"sweep", "s.toml", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out).at("metric").at("mean"), 7)
      << "9 and 8 were of steps that were done again";
}

}  // namespace
}  // namespace hookline
