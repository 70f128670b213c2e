// `hookline sweep --scheduler slurm`: on a private Slurm, and its errors without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_hookline.h"
#include "cli/sweep/sweep_rows.h"
#include "support/slurm.h"
#include "support/terminal.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lines_in;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::SizeIs;
using testing::Slurm;
using testing::timeless;
using Json = nlohmann::json;

constexpr std::chrono::minutes kLimit{5};  // allows for a loaded machine and a sanitizer

/// A trial's metric is a function of its values; each start appends a line to starts.log. With `--wait yes`,
/// a trial waits for the file go.
const std::string kTrain =
    "echo \"$*\" >> starts.log\n"
    "case \" $* \" in *\" --wait yes \"*) until [ -e go ]; do sleep 0.05; done;; esac\n"
    "n=$(echo \"$*\" | cksum | cut -d' ' -f1)\n"
    "for s in 1 2 3; do echo \"{\\\"step\\\": $s, \\\"score\\\": $((n % 1000 * s))}\" >> "
    "$HOOKLINE_RUN_DIR/metrics.jsonl; done\n";

const std::string kHead = "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\ngoal = \"max\"\n";

bool eventually(const std::function<bool()>& condition) { return testing::eventually(condition, kLimit); }

class SweepOnSlurm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!slurm_.problem().empty()) GTEST_SKIP() << slurm_.problem();
    sandbox_.script("train", kTrain);
  }

  /// Cancels remaining jobs, so that nothing writes into the sandbox while it is removed.
  void TearDown() override {
    if (!slurm_.problem().empty()) return;
    slurm_.run("/usr/bin/scancel", {"--full", "--user=root"});
    eventually([&] { return queue().empty(); });
  }

  ProcessOptions here(std::vector<std::string> arguments) const {
    ProcessOptions options = sandbox_.options(std::move(arguments));
    options.environment["SLURM_CONF"] = slurm_.options({}).environment.at("SLURM_CONF");
    options.limit = kLimit;
    return options;
  }

  ProcessResult run(std::vector<std::string> arguments) const {
    return testing::run_process(HOOKLINE_BINARY, here(std::move(arguments)));
  }

  ProcessResult sweep(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"sweep", "s.toml", "--scheduler", "slurm"});
    return run(more);
  }

  std::string queue() const { return slurm_.run("/usr/bin/squeue", {"-h", "-r"}).out; }

  std::string path(const std::string& name) const { return (sandbox_.folder.path() / name).string(); }

  /// The folder of the trial whose command line contains `words`.
  std::string trial(const std::string& words) const {
    for (const auto& each : fs::directory_iterator(path("hookline-sweeps/s/trials"))) {
      const Json plan = Json::parse(testing::read_file(each.path() / "plan.json"));
      std::string line;
      for (const Json& word : plan.at("program")) line += word.get<std::string>() + " ";
      if (each.path().extension().empty() && line.find(words + " ") != line.npos) return each.path();
    }
    return "no trial has " + words;
  }

  static std::string job_in(const std::string& text) {
    std::smatch found;
    return std::regex_search(text, found, std::regex("hookline: job ([0-9]+) runs ")) ? found[1].str() : "";
  }

  Slurm slurm_;
  Sandbox sandbox_;
};

TEST_F(SweepOnSlurm, ShowsLiveProgress) {
  // Each trial waits, after its third step, for its file go1 or go2.
  sandbox_.script("train", kTrain + "until [ -e go$2 ]; do sleep 0.05; done\n");
  sandbox_.folder.write("s.toml", kHead + "max_parallel = 1\n[grid]\nargs.a = [1, 2]\n");
  testing::Terminal terminal(HOOKLINE_BINARY, here({"sweep", "s.toml", "--scheduler", "slurm"}));
  EXPECT_TRUE(terminal.shows("0/2 trials | 1 running | 1 queued")) << terminal.screen();
  EXPECT_TRUE(terminal.shows(" | a=1 step 3 score ")) << terminal.screen();
  sandbox_.folder.write("go1", "");
  EXPECT_TRUE(terminal.shows(" left | a=2 step 3 score ")) << terminal.screen();
  sandbox_.folder.write("go2", "");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST_F(SweepOnSlurm, GivesTheResultsOfALocalSweep) {
  const std::string file = kHead +
                           "config = \"base.toml\"\nbaseline_every = 3\n"
                           "[baseline]\nargs.a = 0\n[grid]\nargs.a = [1, 2, 3]\nargs.b = [\"x y\", \"$z\"]\n";
  const Sandbox local;
  for (const Sandbox* each : {&local, static_cast<const Sandbox*>(&sandbox_)}) {
    each->script("train", kTrain);
    each->folder.write("base.toml", "[training]\nmax_steps = 7\n");
    each->folder.write("s.toml", file);
  }
  const ProcessResult expected = local.run({"sweep", "s.toml", "--json"});
  ASSERT_EQ(expected.exit_code, 0) << expected.err;

  const ProcessResult result = sweep({"--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(timeless(result.out), timeless(expected.out));
  EXPECT_EQ(sandbox_.read("hookline-sweeps/s/best.toml"), local.read("hookline-sweeps/s/best.toml"));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: 8 trials; results in "),
                    ContainsRegex("hookline: job [0-9]+ runs 8 trials; its logs are in .*/array\n"),
                    HasSubstr("hookline: [1/8] "), HasSubstr("hookline: [8/8] ")));
  EXPECT_EQ(lines_in(sandbox_.read("starts.log")), 8u);

  // Nothing is left to do, so Slurm is not needed either.
  ProcessOptions without_slurm = here({"sweep", "s.toml", "--json"});
  without_slurm.environment["PATH"] = "/nowhere";
  const ProcessResult again = testing::run_process(HOOKLINE_BINARY, without_slurm);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("hookline: 8 trials, 8 of them ended in earlier runs; results in "));
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(lines_in(sandbox_.read("starts.log")), 8u);
}

TEST_F(SweepOnSlurm, SaysWhyEachTrialFailed) {
  sandbox_.script("train",
                  "case $2 in\n  exits) exit 3;;\n  silent) ;;\n  hangs) sleep 1000;;\n"
                  "  fine) echo '{\"step\": 1, \"score\": 1}' >> $HOOKLINE_RUN_DIR/metrics.jsonl;;\nesac\n");
  sandbox_.folder.write("s.toml", kHead +
                                      "trial_limit_seconds = 8\n[grid]\n"
                                      "args.how = [\"exits\", \"silent\", \"hangs\", \"fine\"]\n");
  const ProcessResult result = sweep();
  EXPECT_EQ(result.exit_code, 1);
  for (const char* line : {"how=exits: failed after ", ": rank 0 exited with code 3\n",
                           ": it never logged 'score'; it logged no metric\n",
                           ": it was not done after 8 s (trial_limit_seconds)\n", "] how=fine: score 1, "})
    EXPECT_THAT(result.err, HasSubstr(line));
  EXPECT_THAT(result.out, AllOf(HasSubstr("0, 1 failed  how=hangs\n"), HasSubstr("/best.toml:\n")));
  EXPECT_EQ(sweep().exit_code, 1) << "they are not tried again";
  EXPECT_EQ(run({"trial", trial("exits")}).exit_code, 1) << "nor by hand";

  sandbox_.script("train", "echo '{\"step\": 1, \"score\": 2}' >> $HOOKLINE_RUN_DIR/metrics.jsonl\n");
  const ProcessResult retried = sweep({"--retry-failed"});
  EXPECT_EQ(retried.exit_code, 0) << retried.err;
  EXPECT_THAT(retried.err,
              AllOf(HasSubstr("hookline: 4 trials, 1 of them ended in earlier runs; results in "),
                    HasSubstr(" runs 3 trials; ")));
}

TEST_F(SweepOnSlurm, ACancelledElementGoesBackToWaiting) {
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.wait = [\"yes\", \"no\", \"never\"]\n");
  Process first(HOOKLINE_BINARY, here({"sweep", "s.toml", "--scheduler", "slurm"}));
  ASSERT_TRUE(first.wait_for("[2/3] ")) << first.err();
  const std::string job = job_in(first.err());
  EXPECT_EQ(slurm_.run("/usr/bin/scancel", {job + "_1"}).exit_code, 0);
  const ProcessResult cancelled = first.wait();
  EXPECT_EQ(cancelled.exit_code, 1);
  EXPECT_THAT(
      cancelled.err,
      AllOf(HasSubstr("hookline: warning: wait=yes: element 1 of job " + job +
                      " ended without a result (CANCELLED): the trial is to run again; the element's log "
                      "is " +
                      path("hookline-sweeps/s/array/" + job + "_1.log") + "\n"),
            HasSubstr("hookline: 1 trial is to run again; the same 'hookline sweep' command submits it\n")));
  EXPECT_THAT(cancelled.out, HasSubstr("0, 1 to go  wait=yes\n"));
  EXPECT_THAT(sandbox_.read("hookline-sweeps/s/array/" + job + "_1.log"),
              HasSubstr("hookline: stopped before the trial was done"));

  sandbox_.folder.write("go", "");
  const ProcessResult second = sweep();
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr("hookline: 3 trials, 2 of them ended in earlier runs; results in "),
                                HasSubstr(" runs 1 trial; "), HasSubstr("hookline: [3/3] wait=yes: score ")));
  EXPECT_EQ(lines_in(sandbox_.read("starts.log")), 4u);

  // Cancelled before it started; the next command notices, even a local one.
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.wait = [\"later\"]\n");
  const ProcessResult queued = sweep({"--no-follow", "--scheduler-arg", "--begin=now+1hour"});
  EXPECT_EQ(slurm_.run("/usr/bin/scancel", {job_in(queued.err)}).exit_code, 0);
  const ProcessResult local = run({"sweep", "s.toml"});
  EXPECT_EQ(local.exit_code, 0) << local.err;
  EXPECT_THAT(local.err, AllOf(HasSubstr("hookline: warning: wait=later: element 1 of job "),
                               HasSubstr("] wait=later: score ")));
}

TEST_F(SweepOnSlurm, QueuedTrialsKeepTheirSettingsAndAreSubmittedOnce) {
  const std::string head = kHead + "max_parallel = 1\n[grid]\nargs.wait = [\"yes\"]\nargs.a = ";
  sandbox_.folder.write("s.toml", head + "[1, 2, 3]\n");
  const ProcessResult queued = sweep({"--no-follow"});
  EXPECT_EQ(queued.exit_code, 0) << queued.err;
  EXPECT_EQ(queued.out, "");
  const std::string job = job_in(queued.err);
  EXPECT_THAT(queued.err, HasSubstr("hookline: job " + job +
                                    " continues, with 3 trials to come; the same "
                                    "'hookline sweep' command collects its results, and 'scancel " +
                                    job + "' cancels it\n"));

  // Nothing is submitted twice or also run locally.
  const ProcessResult once_more = sweep({"--no-follow"});
  EXPECT_EQ(once_more.exit_code, 0) << once_more.err;
  EXPECT_EQ(job_in(once_more.err), "");
  EXPECT_THAT(once_more.err, HasSubstr("hookline: job " + job + " continues, with 3 trials to come; "));
  const ProcessResult local = run({"sweep", "s.toml"});
  EXPECT_EQ(local.exit_code, 2);
  EXPECT_EQ(local.err, "hookline: error: Slurm's job " + job +
                           " still has trials of this sweep: follow it with --scheduler slurm, or "
                           "cancel it: scancel " +
                           job + "\n");
  const std::string id = fs::path(trial("--a 2")).filename().string();
  const ProcessResult rerun = sweep({"--rerun", id});
  EXPECT_EQ(rerun.exit_code, 2);
  EXPECT_EQ(rerun.err, "hookline: error: the trial " + id + " can't be run again: job " + job +
                           " still has it; 'scancel " + job +
                           "' cancels that\n"
                           "  see: hookline sweep --help\n");

  // The file changes: one trial is new, one is gone, and the others are in another order.
  sandbox_.folder.write("s.toml", head + "[3, 9, 1]\n");
  Process follower(HOOKLINE_BINARY, here({"sweep", "s.toml", "--scheduler", "slurm"}));
  ASSERT_TRUE(follower.wait_for(" runs 1 trial; ")) << follower.err();
  const ProcessResult second = sweep();
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err, HasSubstr(" is in use by another run (process " + std::to_string(follower.pid())));
  follower.signal(SIGINT);
  const ProcessResult stopped = follower.wait();
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT);
  EXPECT_THAT(stopped.err, HasSubstr("hookline: job " + job + " continues, with 2 trials to come; "));

  sandbox_.folder.write("go", "");
  const ProcessResult result = sweep();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(job_in(result.err), "");
  EXPECT_THAT(result.err, HasSubstr("[3/3] "));
  // The trial that is no longer part of the sweep still runs, and its result is kept.
  ASSERT_TRUE(eventually([&] { return fs::exists(trial("--a 2") + "/result.json"); }));
  sandbox_.folder.write("s.toml", head + "[1, 2, 3, 9]\n");
  const ProcessResult whole = sweep();
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(job_in(whole.err), "");
  std::istringstream starts(sandbox_.read("starts.log"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(starts, line);) lines.push_back(line);
  EXPECT_THAT(lines, ::testing::UnorderedElementsAre("--a 1 --wait yes", "--a 2 --wait yes",
                                                     "--a 3 --wait yes", "--a 9 --wait yes"));
}

TEST_F(SweepOnSlurm, RunsThePlanEvenIfTheFilesChange) {
  // Both the sweep and its config change between submission and start.
  sandbox_.script(
      "train",
      kTrain + "grep max_steps $HOOKLINE_RUN_DIR/resolved.toml | cut -d'#' -f1 | tr -d ' ' >> steps.log\n");
  sandbox_.folder.write("base.toml", "[training]\nmax_steps = 10\n");
  sandbox_.folder.write("s.toml", kHead + "config = \"base.toml\"\n[grid]\nargs.a = [1]\n");
  const ProcessResult queued = sweep({"--no-follow", "--scheduler-arg", "--hold"});
  EXPECT_EQ(queued.exit_code, 0) << queued.err;
  sandbox_.folder.write("base.toml", "[training]\nmax_steps = 77\n");
  sandbox_.folder.write("s.toml", "none");
  EXPECT_EQ(slurm_.run("/usr/bin/scontrol", {"release", job_in(queued.err)}).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return fs::exists(trial("--a 1") + "/result.json"); }));
  EXPECT_EQ(sandbox_.read("steps.log"), "max_steps=10\n");
}

TEST_F(SweepOnSlurm, AnUnreadableResultIsReportedAndItsFilesAreKept) {
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.a = [1, 2]\n");
  EXPECT_EQ(sweep({"--no-follow"}).exit_code, 0);
  ASSERT_TRUE(eventually([&] {
    return fs::exists(trial("--a 1") + "/result.json") && fs::exists(trial("--a 2") + "/result.json") &&
           queue().empty();
  }));
  const std::string folder = trial("--a 1");
  sandbox_.folder.write(folder + "/result.json", "{\"format\": 1, \"stat");
  const std::string told =
      "the result of the trial " + fs::path(folder).filename().string() + " is lost: '" + folder +
      "/result.json' can't be used: it is no JSON object; the trial is to run again, and "
      "all that it left behind is kept in '" +
      folder + ".1'\n";
  EXPECT_EQ(run({"trial", folder}).exit_code, 2) << "a result that can't be read blocks the trial";
  const ProcessResult result = sweep();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: warning: " + told), HasSubstr(" runs 1 trial; "),
                                HasSubstr("hookline: [2/2] a=1: score ")));
  EXPECT_TRUE(fs::exists(folder + ".1/runs/latest/metrics.jsonl"));
}

TEST_F(SweepOnSlurm, ARequeuedElementStartsOver) {
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.wait = [\"yes\"]\n");
  Process first(HOOKLINE_BINARY, here({"sweep", "s.toml", "--scheduler", "slurm"}));
  ASSERT_TRUE(eventually([&] { return sandbox_.has("starts.log"); }));
  const std::string folder = trial("--wait yes");
  // Only one process at a time may use the trial's folder.
  const ProcessResult second = run({"trial", folder});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err,
              AllOf(HasSubstr("hookline: error: the trial's folder '" + folder + "' is in use by "),
                    HasSubstr("another run (process ")));
  first.read();
  ASSERT_TRUE(first.wait_for(" runs 1 trial; ")) << first.err();
  const std::string job = job_in(first.err());
  EXPECT_EQ(slurm_.run("/usr/bin/scontrol", {"requeue", job + "_1"}).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return queue().find(" PD ") != std::string::npos; })) << queue();
  sandbox_.folder.write("go", "");
  // Slurm would hold the requeued job for two minutes: start it now.
  EXPECT_TRUE(eventually([&] {
    return slurm_.run("/usr/bin/scontrol", {"update", "JobId=" + job + "_1", "StartTime=now"}).exit_code == 0;
  }));
  const ProcessResult result = first.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hookline: [1/1] wait=yes: score "));
  EXPECT_EQ(lines_in(sandbox_.read("starts.log")), 2u);
  const ProcessResult again = run({"trial", folder});
  EXPECT_EQ(again.err, "hookline: the trial is done already: its result is " + folder + "/result.json\n");
  EXPECT_EQ(again.exit_code, 0);
}

TEST_F(SweepOnSlurm, FindsAJobWhoseSubmissionWasKilled) {
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.wait = [\"yes\"]\n");
  sandbox_.script(
      "bin/sbatch",
      "/usr/bin/sbatch \"$@\" > job\nuntil [ -s pid ]; do sleep 0.05; done\nkill -9 $(cat pid)\n");
  ProcessOptions options = here({"sweep", "s.toml", "--scheduler", "slurm"});
  options.environment["PATH"] = path("bin") + ":/usr/bin:/bin";
  Process killed(HOOKLINE_BINARY, options);
  sandbox_.folder.write("pid", std::to_string(killed.pid()));
  EXPECT_EQ(killed.wait().exit_code, 128 + SIGKILL);
  sandbox_.folder.write("go", "");
  const ProcessResult result = sweep();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(job_in(result.err), "");
  EXPECT_THAT(result.err, HasSubstr("[1/1] wait=yes: score "));
  EXPECT_EQ(lines_in(sandbox_.read("starts.log")), 1u);

  // A submission that never reached Slurm.
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.a = [5]\n");
  sandbox_.folder.write("pid", "");
  sandbox_.script("bin/sbatch", "until [ -s pid ]; do sleep 0.05; done\nkill -9 $(cat pid)\n");
  Process never(HOOKLINE_BINARY, options);
  sandbox_.folder.write("pid", std::to_string(never.pid()));
  EXPECT_EQ(never.wait().exit_code, 128 + SIGKILL);
  const ProcessResult submitted = sweep();
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  EXPECT_THAT(submitted.err,
              AllOf(ContainsRegex("hookline: warning: Slurm has no job of '.*[.]sbatch', whose "
                                  "submission was interrupted: 1 trial of it is to run again\n"),
                    HasSubstr(" runs 1 trial; "), HasSubstr("[1/1] a=5: score ")));
}

TEST_F(SweepOnSlurm, ReportsWhatSlurmRefuses) {
  sandbox_.folder.write("s.toml", kHead + "[grid]\nargs.a = [1, 2]\n");
  const ProcessResult result = sweep({"--scheduler-arg", "--partition=none"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: error: sbatch refused '"),
                                HasSubstr("invalid partition specified: none")));
  EXPECT_EQ(sweep().exit_code, 0) << "what was refused is not taken for queued";
}

TEST_F(SweepOnSlurm, AsksForACoreForEachThreadOfARank) {
  sandbox_.folder.write("s.toml", kHead + "[fixed]\nlaunch.omp_num_threads = 2\n[grid]\nargs.a = [1]\n");
  const ProcessResult refused = sweep();  // the cluster's nodes have one core each
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("Requested node configuration is not available"));
  const ProcessResult result = sweep({"--scheduler-arg", "--cpus-per-task=1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

struct SweepJob : ::testing::Test {
  SweepJob() {
    sandbox.script("train", kTrain);
    sandbox.folder.write("s.toml", kHead + "[grid]\nargs.a = [1, 2, 3]\n");
  }
  ProcessResult sweep(std::vector<std::string> more) const {
    more.insert(more.begin(), {"sweep", "s.toml"});
    return sandbox.run(more);
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& why) const {
    const ProcessResult result = sweep(arguments);
    EXPECT_EQ(result.err, "hookline: error: " + why + "\n  see: hookline sweep --help\n");
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.exit_code, 2);
  }
  Sandbox sandbox;
};

TEST_F(SweepJob, IsPrinted) {
  const ProcessResult result = sweep({"--scheduler", "slurm", "--print", "--scheduler-arg", "--time=01:00:00",
                                      "--scheduler-arg", "--partition=gpu"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string folder = (sandbox.folder.path() / "hookline-sweeps/s").string();
  EXPECT_EQ(std::regex_replace(result.out, std::regex("[0-9]{8}-[0-9]{6}-[0-9]+"), "NOW"),
            "#!/bin/bash\n"
            "# Element N runs one trial of a sweep: the one in line N of the list.\n"
            "#SBATCH --job-name=s\n"
            "#SBATCH --array=1-3\n"
            "#SBATCH --ntasks=1\n"
            "#SBATCH --cpus-per-task=1\n"
            "#SBATCH --output=" +
                folder +
                "/array/%A_%a.log\n"
                "#SBATCH --open-mode=append\n"
                "#SBATCH --requeue\n"
                "#SBATCH --time=01:00:00\n"
                "#SBATCH --partition=gpu\n"
                "exec " HOOKLINE_BINARY " trial " +
                folder + "/trials/\"$(sed -n \"$SLURM_ARRAY_TASK_ID p\" " + folder +
                "/array/NOW.trials)\"\n");
  EXPECT_EQ(result.err,
            "hookline: this script is only to look at: the files that it reads are written when it is "
            "submitted, without --print\n");
  EXPECT_FALSE(sandbox.has("hookline-sweeps"));

  const auto line_of = [&](const std::string& settings, const std::string& begin) {
    sandbox.folder.write("s.toml", kHead + settings + "\n[grid]\nargs.a = [1, 2, 3]\n");
    const std::string out = sweep({"--scheduler", "slurm", "--print"}).out;
    const std::size_t at = out.find("#SBATCH --" + begin);
    return at == out.npos ? "no " + begin : out.substr(at + 10, out.find('\n', at) - at - 10);
  };
  EXPECT_EQ(line_of("max_parallel = 1", "array"), "array=1-3%1");
  EXPECT_EQ(line_of("max_parallel = \"auto\"", "array"), "array=1-3");
  EXPECT_EQ(line_of("budget_trials = 2", "array"), "array=1-2");
  EXPECT_EQ(line_of("[fixed]\nlaunch.processes_per_node = 4", "cpus"), "cpus-per-task=4");
  EXPECT_EQ(line_of("[fixed]\nlaunch.processes_per_node = 4", "gres"), "no gres");
  // The submitting host needs no GPUs.
  EXPECT_EQ(line_of("[fixed]\nlaunch.device = \"cuda\"\nlaunch.processes_per_node = 4", "gres"),
            "gres=gpu:4");
  EXPECT_EQ(line_of("[fixed]\nlaunch.processes_per_node = 4\nlaunch.omp_num_threads = 3", "cpus"),
            "cpus-per-task=12");
  sandbox.folder.write("s.toml", kHead +
                                     "[fixed]\nlaunch.device = \"cuda\"\nlaunch.processes_per_node = 4\n"
                                     "[grid]\nargs.a = [1]\n");
  EXPECT_THAT(
      sweep({"--scheduler", "slurm", "--print", "--scheduler-arg=--gpus=a100:4", "--scheduler-arg=-c 8"}).out,
      AllOf(HasSubstr("\n#SBATCH --gpus=a100:4\n#SBATCH -c 8\n"), Not(HasSubstr("--gres")),
            Not(HasSubstr("--cpus-per-task"))));
  EXPECT_THAT(sweep({"--scheduler", "slurm", "--print", "--scheduler-arg=--gres=tmp:1G"}).err,
              HasSubstr("'--gres=tmp:1G' takes the place of --gres=gpu:4"));

  sandbox.folder.write("s.toml", kHead + "[grid]\nargs.a = [1, 2, 3]\n");
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 0);
  const ProcessResult nothing = sweep({"--scheduler", "slurm", "--print"});
  EXPECT_EQ(nothing.err,
            "hookline: there is nothing to submit: either no trial waits, or every waiting trial is in a job "
            "already, or budget_trials is used up\n");
  EXPECT_EQ(nothing.out, "");
  const ProcessResult plan = sweep({"--scheduler", "slurm", "--dry-run"});
  EXPECT_THAT(plan.out, HasSubstr("3 trials\n"));
  const std::string id = plan.out.substr(0, plan.out.find(' '));
  EXPECT_THAT(sweep({"--scheduler", "slurm", "--print", "--rerun", id}).out, HasSubstr("--array=1-1\n"));
}

TEST_F(SweepJob, RefusesSettingsThatAJobArrayCannotHonor) {
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\nearly_stopping = \"median\"\n"
                       "budget_seconds = 60\nfailed = \"stop\"\n[grid]\nargs.a = [1, 2]\n");
  const ProcessResult result = sweep({"--scheduler", "slurm"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(
      result.err,
      "s.toml:4:18: error: an array job can't apply 'early_stopping': its trials do not see each other\n"
      "  4 | early_stopping = \"median\"\n"
      "    |                  ^~~~~~~~ write \"none\", or run the sweep without --scheduler\n"
      "s.toml:5:18: error: an array job can't apply 'budget_seconds': Slurm begins trials without "
      "asking how long others have run\n"
      "  5 | budget_seconds = 60\n"
      "    |                  ^~ use budget_trials, or run the sweep without --scheduler\n"
      "s.toml:6:10: error: an array job can't apply 'failed': Slurm begins trials though others have "
      "failed\n"
      "  6 | failed = \"stop\"\n"
      "    |          ^~~~~~ write \"continue\", or run the sweep without --scheduler\n");
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\nearly_stopping = \"none\"\n"
                       "budget_seconds = \"none\"\nfailed = \"continue\"\n[grid]\nargs.a = [1, 2]\n");
  EXPECT_EQ(sweep({"--scheduler", "slurm", "--print"}).exit_code, 0);
}

TEST_F(SweepJob, RefusesFlagsThatDoNotFit) {
  expect_refused({"--scheduler", "mpirun"}, "there is no scheduler 'mpirun' for a sweep: only slurm");
  for (const char* flag : {"--print", "--no-follow"})
    expect_refused({flag}, std::string(flag) + " goes with --scheduler slurm");
  expect_refused({"--template", "mine"}, "--template goes with --scheduler slurm");
  expect_refused({"--scheduler-arg", "--time=1"}, "--scheduler-arg goes with --scheduler slurm");
  expect_refused({"--scheduler", "slurm", "--scheduler-arg", "time=1"},
                 "--scheduler-arg 'time=1' is not an option: write --scheduler-arg=--time=1");
  for (const std::string array : {"--array=1-9", "-a1-9", "--arr=1-3", "--array"})
    expect_refused({"--scheduler", "slurm", "--scheduler-arg", array},
                   "--scheduler-arg '" + array +
                       "' would change which elements the array job has: leave it out; hookline gives it "
                       "one element for each trial");
  const auto of_layout = [](const std::string& word, const std::string& what) {
    return "--scheduler-arg '" + word + "' asks for " + what +
           ", and a trial is one task on one node, which starts its ranks: leave it out; "
           "launch.processes_per_node in the sweep file says how many there are";
  };
  for (const std::string nodes : {"--nodes=2", "-N2"})
    expect_refused({"--scheduler", "slurm", "--scheduler-arg", nodes}, of_layout(nodes, "nodes"));
  expect_refused({"--scheduler", "slurm", "--scheduler-arg", "--mem=1G --ntasks 4"},
                 of_layout("--ntasks", "tasks"));
  for (const std::string one : {"--nodes=1", "-N 1", "--ntasks=1"})
    EXPECT_EQ(sweep({"--scheduler", "slurm", "--print", "--scheduler-arg=" + one}).exit_code, 0) << one;
  expect_refused({"--scheduler", "slurm", "--scheduler-arg", "--clusters=other"},
                 "--scheduler-arg '--clusters=other' sends the job to another cluster, whose queue hookline "
                 "does not query: run "
                 "this on one of that cluster's machines");
  expect_refused({"--scheduler", "slurm", "--template", "none"},
                 "'none' can't be read: No such file or directory");
  sandbox.folder.write("mine", "#SBATCH --array=1-9\nexec ${command} ${trials}/x ${list}\n");
  expect_refused(
      {"--scheduler", "slurm", "--template", "mine"},
      "the template 'mine' has no ${array}: an array job runs no trials without ${array}, ${command}, "
      "${trials} and ${list}; to see how the built-in template uses them, run with --print and without "
      "--template");
  sandbox.folder.write("mine",
                       "#SBATCH --nodes=${nodes}\n#SBATCH --array=${array}\n${command} ${trials} ${list}\n");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--template", "mine", "--print"}, {"--template", "mine"}}) {
    std::vector<std::string> arguments = {"--scheduler", "slurm"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = sweep(arguments);
    EXPECT_THAT(result.err,
                HasSubstr("hookline: error: the template 'mine', line 1: there is no ${nodes}; known are "
                          "${array}, ${command}, ${cpus}, ${cpus_line}, ${gpus}, ${list}, ${log}, ${name}, "
                          "${scheduler_arguments}, ${trials}\n"));
    EXPECT_EQ(result.exit_code, 2);
  }
}

TEST_F(SweepJob, RefusesFlagsThatWouldHaveNoEffect) {
  for (const std::string flag : {"--no-follow", "--template=mine", "--scheduler-arg=--time=1"}) {
    const ProcessResult result = sweep({"--scheduler", "slurm", "--dry-run", flag});
    EXPECT_THAT(result.err, HasSubstr(flag.substr(0, flag.find('=')) + " and --dry-run don't go together"));
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.exit_code, 2);
  }
  for (const std::string flag : {"--print", "--no-follow"})
    expect_refused({"--scheduler", "slurm", "--json", flag},
                   "--json and " + flag + " don't go together: there are no results to print then");
  expect_refused({"--scheduler", "slurm", "--print", "--no-follow"},
                 "--no-follow and --print don't go together: --print submits no job that could be followed");
  EXPECT_EQ(
      sweep({"--scheduler", "slurm", "--print", "--scheduler-arg", "--cluster-constraint=big"}).exit_code, 0);
}

/// Replaces Slurm's commands with scripts, for behavior that a real Slurm cannot be made to show.
struct SweepWithScriptsForSlurm : SweepJob {
  ProcessResult sweep_with(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"sweep", "s.toml", "--scheduler", "slurm"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ProcessOptions options = sandbox.options(arguments);
    options.environment["PATH"] = (sandbox.folder.path() / "bin").string() + ":/usr/bin:/bin";
    options.environment["SBATCH_ARRAY_INX"] = "1-9";
    options.environment["SQUEUE_USERS"] = "nobody";
    return testing::run_process(HOOKLINE_BINARY, options);
  }
};

TEST_F(SweepWithScriptsForSlurm, SubmitsOnceEvenIfSbatchsReplyIsLost) {
  sandbox.script(
      "bin/sbatch",
      "[ -z \"$SBATCH_ARRAY_INX\" ] || exit 9\necho \"$2\" >> submitted\n"
      "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2\n"
      "exit 1\n");
  sandbox.script("bin/squeue", "");  // not in the queue yet
  const ProcessResult lost = sweep_with({"--no-follow"});
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.err,
              ContainsRegex("hookline: error: sbatch has not said whether it took '.*[.]sbatch': sbatch: "
                            "error: Batch job submission failed: Socket timed out on send/recv "
                            "operation; the same 'hookline sweep' command finds out, and then continues\n"));
  sandbox.script("bin/squeue",
                 "[ -z \"$SQUEUE_USERS\" ] || exit 9\nfor e in 1 2 3; do echo \"77|$e|PENDING|Priority|$(cat "
                 "submitted)\"; done\n");
  const ProcessResult found = sweep_with({"--no-follow"});
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(
      found.err,
      HasSubstr(
          "hookline: job 77 continues, with 3 trials to come; the same 'hookline sweep' command collects "
          "its results, and 'scancel 77' cancels it\n"));
  EXPECT_EQ(lines_in(sandbox.read("submitted")), 1u);
}

TEST_F(SweepWithScriptsForSlurm, FindsOutLaterWhetherARefusedJobIsQueued) {
  sandbox.script("bin/sbatch", "echo \"$2\" >> submitted\necho 'sbatch: error: no' >&2\nexit 1\n");
  sandbox.script("bin/squeue", "echo 'Unable to contact slurm controller' >&2\nexit 1\n");
  const ProcessResult refused = sweep_with({"--no-follow"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              ContainsRegex("hookline: error: sbatch refused '.*[.]sbatch': sbatch: error: no; Slurm's queue "
                            "can't be asked: Unable to contact slurm controller, so the job may be queued; "
                            "the same 'hookline sweep' command finds out, and then continues\n"));
  sandbox.script("bin/squeue", "for e in 1 2 3; do echo \"77|$e|PENDING|Priority|$(cat submitted)\"; done\n");
  EXPECT_THAT(sweep_with({"--no-follow"}).err,
              HasSubstr("hookline: job 77 continues, with 3 trials to come"));
  EXPECT_EQ(lines_in(sandbox.read("submitted")), 1u);
}

TEST_F(SweepWithScriptsForSlurm, RetriesWhenSlurmDoesNotAnswer) {
  sandbox.script("bin/sbatch", "echo \"$2\" > submitted\necho 77\n");
  sandbox.script("bin/squeue", "for e in 1 2 3; do echo \"77|$e|PENDING|Priority|$(cat submitted)\"; done\n");
  EXPECT_EQ(sweep_with({"--no-follow"}).exit_code, 0);
  sandbox.script(
      "bin/squeue",
      "if [ ! -e asked ]; then touch asked; echo 'Unable to contact slurm controller' >&2; exit 1; fi\n"
      "for e in 1 2 3; do echo \"77|$e|PENDING|Priority|$(cat submitted)\"; done\n");
  const ProcessResult result = sweep_with({"--no-follow"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("Slurm's queue can't be asked: Unable to contact slurm controller; "
                                          "hookline keeps asking Slurm\n"),
                                HasSubstr("hookline: job 77 continues, with 3 trials to come")));
}

TEST_F(SweepWithScriptsForSlurm, ReportsFailuresWhileAJobRuns) {
  sandbox.script("train", "exit $2\n");
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n[grid]\nargs.a = [1]\n");
  EXPECT_EQ(sandbox.run({"sweep", "s.toml"}).exit_code, 1);
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n[grid]\nargs.a = [1, 0]\n");
  sandbox.script("bin/sbatch", "echo \"$2\" > submitted\necho 77\n");
  sandbox.script("bin/squeue", "echo \"77|1|PENDING|Priority|$(cat submitted)\"\n");
  const ProcessResult result = sweep_with({"--no-follow"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: job 77 runs 1 trial; "), HasSubstr("hookline: 1 trial failed: ")));
  // Once trials of the job have failed, repeating --retry-failed would run them once more, so the message
  // says to leave the flag out.
  const std::string plan = sandbox.run({"sweep", "s.toml", "--dry-run"}).out;
  sandbox.script("bin/squeue", "for e in 1 2; do echo \"77|$e|PENDING|Priority|$(cat submitted)\"; done\n");
  const ProcessResult again = sweep_with({"--no-follow", "--retry-failed"});
  EXPECT_THAT(again.err,
              HasSubstr("; the same 'hookline sweep' command, without --retry-failed, collects its "
                        "results, and "));
  const ProcessResult refused = sweep_with({"--rerun", plan.substr(0, 12)});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("hookline: error: the trial " + plan.substr(0, 12) + " can't be run again: job "));
}

TEST_F(SweepWithScriptsForSlurm, RefusesAFolderNameThatIsNotUtf8) {
  const std::string name = "caf\xe9";
  std::filesystem::create_directory(sandbox.folder.path() / name);
  ProcessOptions options =
      sandbox.options({"sweep", "../s.toml", "--scheduler", "slurm", "--output", "../out"});
  options.folder = sandbox.folder.path() / name;
  sandbox.script(name + "/train", kTrain);
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("', in which trials are to run, has a name that is not UTF-8, and their plans "
                        "can't hold it: rename it, or start the sweep from another one\n"));
}

TEST_F(SweepJob, NeedsSlurmsCommands) {
  ProcessOptions options = sandbox.options({"sweep", "s.toml", "--scheduler", "slurm"});
  options.environment["PATH"] = "/nowhere";
  ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_THAT(result.err, HasSubstr("no 'sbatch' on this machine: submit '"));
  EXPECT_EQ(result.exit_code, 1);

  // Trials that a job may still hold are not run locally.
  const std::string folder = (sandbox.folder.path() / "hookline-sweeps/s/array").string();
  const ProcessResult plan = sweep({"--dry-run"});
  sandbox.folder.write(folder + "/20260101-000000-1.json",
                       "{\"job\": \"7\", \"elements\": {\"1\": \"" + plan.out.substr(0, 12) + "\"}}");
  options.arguments = {"sweep", "s.toml"};
  result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.err,
            "hookline: error: there is no 'squeue' on this machine, and the job of '" + folder +
                "/20260101-000000-1.sbatch' may still run: run this where Slurm's commands are\n");
  EXPECT_EQ(result.exit_code, 1);
  sandbox.folder.write(folder + "/20260101-000000-1.json", "{\"job\": 7}");
  result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: error: '" + folder +
                                          "/20260101-000000-1.json', which says what trials a job of "
                                          "Slurm's has, can't be used: "),
                                HasSubstr("; once that job is over, remove the file\n")));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_FALSE(sandbox.has("starts.log"));
}

TEST_F(SweepJob, ReadsItsNumberFromSbatchsOutput) {
  ProcessOptions options = sandbox.options({"sweep", "s.toml", "--scheduler", "slurm", "--no-follow"});
  options.environment["PATH"] = (sandbox.folder.path() / "bin").string() + ":/usr/bin:/bin";
  sandbox.script("bin/sbatch", "echo 'sbatch: it is only tried' >&2\n");
  sandbox.script("bin/squeue", "");  // no such job in the queue
  ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_THAT(
      result.err,
      ContainsRegex(
          "hookline: error: sbatch printed no job number for '.*[.]sbatch': sbatch: it is only tried\n"));
  EXPECT_EQ(result.exit_code, 1);
  sandbox.script("bin/sbatch", "echo 'sbatch: warning: no account' >&2\necho '42;here'\n");
  result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_THAT(result.err, HasSubstr("hookline: job 42 runs 3 trials; "));
  EXPECT_EQ(result.exit_code, 0);
}

TEST(TrialOfASweep, NeedsItsPlan) {
  const Sandbox sandbox;
  const std::string folder = (sandbox.folder.path() / "t").string();
  ProcessResult result = sandbox.run({"trial", "t"});
  EXPECT_EQ(result.err,
            "hookline: error: '" + folder +
                "' is not a trial that a job is to run: it has no plan.json, which hookline sweep "
                "FILE --scheduler slurm writes\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_FALSE(sandbox.has("t"));
  for (const std::string& name : {std::string(), std::string(300, 'a')}) {
    result = sandbox.run({"trial", name});
    EXPECT_THAT(result.err, HasSubstr("it has no plan.json"));
    EXPECT_EQ(result.exit_code, 2);
  }
  result = sandbox.run({"trial"});
  EXPECT_EQ(result.err, "hookline: error: a trial's folder is missing\n  see: hookline trial --help\n");
  sandbox.folder.write("t/plan.json", "{\"format\": 2}");
  result = sandbox.run({"trial", "t"});
  EXPECT_EQ(result.err, "hookline: error: '" + folder +
                            "/plan.json' can't be used: it was written by another version of hookline\n");
  EXPECT_EQ(result.exit_code, 2);
  sandbox.folder.write("t/plan.json", "{\"format\": 1}");
  EXPECT_THAT(sandbox.run({"trial", "t"}).err, HasSubstr("key 'id' not found"));
}

Json plan_in(const Sandbox& sandbox) {
  return {{"format", 1},
          {"id", "0123456789ab"},
          {"folder", sandbox.folder.path().string()},
          {"program", {"./train", "--a", "1"}},
          {"values", {{"args.a", "1"}}},
          {"config", "schema_version = 2\n"},
          {"own_folders", Json::object()},
          {"grace_seconds", 1},
          {"trial_limit_seconds", nullptr},
          {"metric", "score"},
          {"goal", "max"},
          {"metric_value", "best"}};
}

TEST(TrialOfASweep, HasNoResultIfItIsStopped) {
  const Sandbox sandbox;
  sandbox.script("train", "echo $$ > rank.part\nmv rank.part rank.pid\nexec sleep 1000\n");
  sandbox.folder.write("t/plan.json", plan_in(sandbox).dump());
  Process trial(HOOKLINE_BINARY, sandbox.options({"trial", "t"}));
  ASSERT_TRUE(eventually([&] { return sandbox.has("rank.pid"); }));
  // As Slurm does, signals every process of the job: first the program, then `hookline trial`.
  kill(std::stoi(sandbox.read("rank.pid")), SIGTERM);
  trial.signal(SIGTERM);
  const ProcessResult result = trial.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_EQ(result.err, "hookline: stopped before the trial was done: it has no result\n");
  EXPECT_FALSE(sandbox.has("t/result.json"));
}

TEST(TrialOfASweep, RunsWhereItWasPlanned) {
  const Sandbox sandbox;
  sandbox.script("train", kTrain);
  Json plan = plan_in(sandbox);
  sandbox.folder.write("t/plan.json", plan.dump());
  sandbox.folder.write("t/runs/left", "of a trial that was interrupted");
  ProcessOptions elsewhere = sandbox.options({"trial", (sandbox.folder.path() / "t").string()});
  elsewhere.folder = "/";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, elsewhere);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hookline: [1/1] a=1: score "));
  const Json found = Json::parse(sandbox.read("t/result.json"));
  EXPECT_EQ(found.at("status"), "done");
  EXPECT_EQ(found.at("judged_by"), "score, best max");
  EXPECT_EQ(found.at("step"), 3);
  EXPECT_FALSE(sandbox.has("t/runs/left"));

  std::filesystem::remove(sandbox.folder.path() / "t/result.json");
  plan["folder"] = "/nowhere";
  sandbox.folder.write("t/plan.json", plan.dump());
  const ProcessResult lost = sandbox.run({"trial", "t"});
  EXPECT_EQ(lost.err,
            "hookline: error: the folder '/nowhere', in which the trial is to run, can't be entered: No such "
            "file or directory\n");
  EXPECT_EQ(lost.exit_code, 1);
}

}  // namespace
}  // namespace hookline
