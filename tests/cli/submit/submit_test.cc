// `hookline submit`: what it writes, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/submit/submit.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::ProcessResult;
using ::testing::StartsWith;

TEST_F(Submit, PrintsAScriptForSlurm) {
  const ProcessResult result =
      run({"--scheduler", "slurm", "--print", "--scheduler-arg", "--time=02:00:00", "--set",
           "ddp.comm_hook=fp16", "--warning-seconds", "120", "run.toml", "./train", "--name", "a b"});
  EXPECT_THAT(
      result.err,
      AllOf(StartsWith("hookline: warning: './train' is a script, "),
            EndsWith(":\n"
                     "  ddp.comm_hook = \"fp16\" (from command line --set ddp.comm_hook)\n"
                     "  training.checkpoint_every_steps = 100 (from file run.toml:4:1)\n"
                     "hookline: device is \"auto\", and this host has no GPU, so the job asks for none; for "
                     "ranks that are to use GPUs: --set launch.device=cuda\n"
                     "hookline: the job's log goes to hookline-runs/ in its working directory (by default, "
                     "where you run sbatch): make hookline-runs/ there before you submit it\n")));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(
      result.out,
      "#!/bin/bash\n"
      "# One launcher on each node; they find each other by Slurm's variables.\n"
      "#SBATCH --job-name=train\n"
      "#SBATCH --nodes=3\n"
      "#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --cpus-per-task=1\n"
      "#SBATCH --output=hookline-runs/slurm-%j.log\n"
      "#SBATCH --open-mode=append\n"
      "#SBATCH --requeue\n"
      "#SBATCH --signal=USR1@120\n"
      "#SBATCH --time=02:00:00\n"
      "# The launchers' token, by which they know each other; srun hands it to them.\n"
      "export HOOKLINE_TOKEN=\"${HOOKLINE_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')}\"\n"
      "# srun does not take the number of CPUs from the job by itself. With --export=ALL, the launchers "
      "get the\n"
      "# variables of the job's script.\n"
      "srun --export=ALL --ntasks-per-node=1 "
      "${SLURM_CPUS_PER_TASK:+--cpus-per-task=\"$SLURM_CPUS_PER_TASK\"} " HOOKLINE_BINARY
      " launch --config run.toml --set ddp.comm_hook=fp16 --set training.resume=auto ./train --name 'a b'\n"
      "code=$?\n"
      "# Ranks that were warned in time have saved their state: the job continues from there.\n"
      "if [ $code -eq 75 ]; then\n"
      "  scontrol requeue \"$SLURM_JOB_ID\"\n"
      "fi\n"
      "exit $code\n");
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST_F(Submit, AsksSlurmForWhatTheRanksNeed) {
  const auto script = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--scheduler", "slurm", "--print", "--set", "launch.processes_per_node=4"});
    more.push_back("./train");
    return run(more).out;
  };
  EXPECT_THAT(script({}),
              ::testing::AllOf(HasSubstr("#SBATCH --cpus-per-task=4\n"), ::testing::Not(HasSubstr("gpu"))));
  EXPECT_THAT(script({"--set", "launch.omp_num_threads=3"}), HasSubstr("#SBATCH --cpus-per-task=12\n"));
  EXPECT_THAT(script({"--set", "launch.device=cuda"}), HasSubstr("#SBATCH --gres=gpu:4\n"));
  EXPECT_THAT(
      script({"--set", "launch.device=cuda", "--scheduler-arg=--gpus-per-node=a100:4"}),
      ::testing::AllOf(HasSubstr("#SBATCH --gpus-per-node=a100:4\n"), ::testing::Not(HasSubstr("gres"))));
}

TEST_F(Submit, OmitsSlurmRequestsThatTheUserMakes) {
  const auto printed = [&](const std::string& argument) {
    return run({"--scheduler", "slurm", "--print", "--set", "launch.processes_per_node=4", "--set",
                "launch.device=cuda", "--scheduler-arg=" + argument, "./train"});
  };
  for (const std::string argument :
       {"--cpus-per-task=8", "-c8", "-c 8", "--cpus-per-t=8", "--cpus-per-gpu=2"})
    EXPECT_THAT(printed(argument).out,
                ::testing::AllOf(HasSubstr("#SBATCH " + argument + "\n"),
                                 ::testing::Not(HasSubstr("#SBATCH --cpus-per-task=4"))));
  for (const std::string argument : {"--gpus=a100:4", "-G4", "--gpus-per-task=4", "--gres=gpu:a100:4",
                                     "--gres gpu:4", "--mem=1G --gpus 4", "--tres-per-task=gres/gpu:4"})
    EXPECT_THAT(printed(argument).out, ::testing::AllOf(HasSubstr("#SBATCH " + argument + "\n"),
                                                        ::testing::Not(HasSubstr("#SBATCH --gres=gpu:4\n"))))
        << argument;
  for (const std::string argument : {"--gpu-bind=none", "--gres-flags=enforce-binding", "--comment=x"})
    EXPECT_THAT(printed(argument).out, HasSubstr("#SBATCH --gres=gpu:4\n")) << argument;
  for (const std::string argument :
       {"--tres-per-task=cpu:4", "--tres-per-task=gres:gpu:4,cpu:3", "--tres-per-task cpu=4"})
    EXPECT_THAT(printed(argument).out,
                ::testing::AllOf(HasSubstr("#SBATCH " + argument + "\n"),
                                 ::testing::Not(HasSubstr("#SBATCH --cpus-per-task="))));
  EXPECT_THAT(printed("--tres-per-task=gres/gpu:4").out, HasSubstr("#SBATCH --cpus-per-task=4\n"));
  const ProcessResult without = printed("--gres=tmp:1G");
  EXPECT_THAT(without.out, ::testing::Not(HasSubstr("--gres=gpu")));
  EXPECT_THAT(without.err,
              HasSubstr("hookline: warning: the job asks Slurm for no GPU, though its ranks use 4 on a node: "
                        "'--gres=tmp:1G' takes the place of --gres=gpu:4; add gpu:4 to it\n"));
}

TEST_F(Submit, RefusesNodeAndTaskCountsInSlurmArguments) {
  for (const std::string argument : {"--nodes=5", "-N5"})
    expect_refused(
        {"--scheduler", "slurm", "--print", "--scheduler-arg=" + argument, "./train"},
        "--scheduler-arg '" + argument +
            "' asks for nodes in addition to hookline's own --nodes: write --nodes N before the program");
  for (const std::string argument : {"--ntasks-per-node=4", "--ntasks=4", "-n4"})
    expect_refused(
        {"--scheduler", "slurm", "--print", "--scheduler-arg=" + argument, "./train"},
        "--scheduler-arg '" + argument +
            "' asks for tasks, and a launch is one task on each node, which starts the ranks there: "
            "write --set launch.processes_per_node=N");
  for (const std::string argument : {"--ntasks-per-node=1", "--nodelist=n[1-3]", "--nice=5"})
    EXPECT_EQ(run({"--scheduler", "slurm", "--print", "--scheduler-arg=" + argument, "./train"}).exit_code, 0)
        << argument;
}

TEST_F(Submit, RefusesProcessCountsInMpirunArguments) {
  const auto expect_refused_for = [&](const std::string& word, const std::string& value) {
    std::vector<std::string> arguments = {"--scheduler", "mpirun", "--print", "--scheduler-arg=" + word};
    if (!value.empty()) arguments.push_back("--scheduler-arg=" + value);
    arguments.push_back("./train");
    expect_refused(arguments,
                   "--scheduler-arg '" + (value.starts_with("ppr:") ? value : word) +
                       "' asks for processes in addition to hookline's own -np, which is one launcher on "
                       "each node: write --nodes N before the program");
  };
  for (const std::string word : {"-c", "-n", "--n", "-np", "--np", "-N", "-npernode", "--npernode",
                                 "-npersocket", "--npersocket", "-ppn", "-perhost", "--ppr"})
    expect_refused_for(word, "4");
  for (const std::string word :
       {"-n=4", "--np=4", "--npernode=4", "-pernode", "--pernode", "--map-by=ppr:4:node"})
    expect_refused_for(word, "");
  expect_refused_for("--map-by", "ppr:2:socket");
  expect_refused_for("--map-by", "ppr:10:node");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--hostfile", "n"}, {"--map-by", "ppr:1:node:PE=4"}, {"--nooversubscribe"}, {"-x", "np"}}) {
    std::vector<std::string> arguments = {"--scheduler", "mpirun", "--print"};
    for (const std::string& word : words) arguments.push_back("--scheduler-arg=" + word);
    arguments.push_back("./train");
    EXPECT_EQ(run(arguments).exit_code, 0) << words[0];
  }
}

TEST_F(Submit, RefusesToRedirectTheJobsOutput) {
  for (const std::string argument : {"--output=x/%j.log", "-o x.log", "--error=e"})
    expect_refused(
        {"--scheduler", "slurm", "--print", "--scheduler-arg=" + argument, "./train"},
        "--scheduler-arg '" + argument.substr(0, argument.find(' ')) +
            "' would move the job's output away from the file that hookline reads and names: leave it "
            "out, or write the script with --print and submit it yourself");
}

TEST_F(Submit, PrintsTheMpirunCommand) {
  const ProcessResult result = run({"--scheduler", "mpirun", "--print", "--nodes", "2",
                                    "--scheduler-arg=--hostfile", "--scheduler-arg=hosts", "./train"});
  EXPECT_EQ(
      result.out,
      R"(HOOKLINE_TOKEN="${HOOKLINE_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}" )"
      "mpirun -np 2 --map-by ppr:1:node --bind-to none -x HOOKLINE_TOKEN --hostfile hosts " HOOKLINE_BINARY
      " launch ./train\n");
  EXPECT_EQ(result.exit_code, 0);
  expect_refused({"--scheduler", "mpirun", "--print", "--scheduler-arg=--hostfile hosts", "./train"},
                 "--scheduler-arg '--hostfile hosts' would be one word: write --scheduler-arg=--hostfile "
                 "--scheduler-arg=hosts");
  expect_refused({"--scheduler", "mpirun", "--print", "--scheduler-arg=hosts", "./train"},
                 "--scheduler-arg 'hosts' is not an option, and an option must come before its values: write "
                 "--scheduler-arg=--hosts");
}

TEST_F(Submit, UsesTheUsersTemplate) {
  sandbox.folder.write("mine", "run ${command} on ${nodes}\n${scheduler_arguments}\nuser $USER ${nodes\n");
  EXPECT_EQ(run({"--scheduler", "slurm", "--print", "--nodes", "2", "--template", "mine", "./train"}).out,
            "run " HOOKLINE_BINARY " launch ./train on 2\nuser $USER ${nodes\n");
  sandbox.folder.write("bad", "one\n#SBATCH --nodes=${node}\n");
  expect_refused({"--scheduler", "slurm", "--print", "--template", "bad", "./train"},
                 "the template 'bad', line 2: there is no ${node}; known are ${command}, ${cpus}, "
                 "${cpus_line}, ${gpus}, "
                 "${log}, ${name}, ${nodes}, "
                 "${scheduler_arguments}, ${warning_seconds}");
  expect_refused({"--scheduler", "slurm", "--print", "--template", "none", "./train"},
                 "'none' can't be read: No such file or directory");
}

TEST_F(Submit, NodesFlagOverridesTheConfig) {
  EXPECT_THAT(run({"--scheduler", "mpirun", "--print", "--nodes", "2", "run.toml", "./train"}).out,
              HasSubstr("mpirun -np 2 "));
  EXPECT_THAT(run({"--scheduler", "mpirun", "--print", "--nodes", "2", "run.toml", "./train"}).out,
              HasSubstr(" --config run.toml --set launch.nnodes=2 "));
  expect_refused({"--scheduler", "slurm", "--print", "--nodes", "2", "--set", "launch.nnodes=3", "./train"},
                 "--nodes and --set launch.nnodes both say how many nodes: give one of them");
}

TEST_F(Submit, SaysWhatIsMissingOrWrong) {
  expect_refused({"./train"}, "--scheduler is missing: slurm, kubernetes or mpirun");
  expect_refused({"--scheduler", "pbs", "./train"},
                 "there is no scheduler 'pbs': choose slurm, kubernetes or mpirun");
  expect_refused({"--scheduler", "slurm", "run.toml"},
                 "the program to launch is missing; for example: hookline submit --scheduler slurm --config "
                 "run.toml ./train");
  expect_refused({"--scheduler", "kubernetes", "--print", "./train"},
                 "--image is missing: the container that holds hookline and the program");
  expect_refused({"--scheduler", "kubernetes", "--print", "--image", "i", "--name", "My_Job", "./train"},
                 "'My_Job' is not a name for Kubernetes: it must begin with a lower-case letter, end with a "
                 "letter or a digit, and consist of at most 52 lower-case letters, digits and '-': name "
                 "the job with --name");
  expect_refused(
      {"--scheduler", "kubernetes", "--image", "i", "./train"},
      "hookline does not submit to Kubernetes itself: pipe the manifest to kubectl: hookline submit … "
      "--print … | kubectl apply -f -");
  expect_refused({"--scheduler", "slurm", "--image", "i", "./train"}, "--image is for kubernetes");
  expect_refused({"--scheduler", "mpirun", "--warning-seconds", "9", "./train"},
                 "--warning-seconds is for slurm and kubernetes");
  expect_refused({"--scheduler", "mpirun", "--template", "t", "./train"},
                 "--template is for slurm and kubernetes");
  expect_refused({"--scheduler", "slurm", "--scheduler-arg", "time=02:00:00", "./train"},
                 "--scheduler-arg 'time=02:00:00' is not an option: write --scheduler-arg=--time=02:00:00");
  expect_refused({"--scheduler", "slurm", "--scheduler-arg=--partition", "--scheduler-arg=gpu", "./train"},
                 "--scheduler-arg 'gpu' is not an option: write --scheduler-arg=--partition=gpu");
  for (const std::vector<std::string>& gpus : {std::vector<std::string>{"--gpus=8"}, {"--gpus", "8"}}) {
    std::vector<std::string> arguments = {"--scheduler", "slurm"};
    arguments.insert(arguments.end(), gpus.begin(), gpus.end());
    expect_refused(arguments, "unknown flag '--gpus'; an option of sbatch goes as --scheduler-arg=--gpus=8");
  }
  expect_refused(
      {"--scheduler", "slurm", "--set", "launch.node_rank=0", "./train"},
      "node_rank is given (from command line --set launch.node_rank), and all nodes of a job run the same "
      "command: leave it out");
  expect_refused(
      {"--scheduler", "slurm", "--name", "my job", "./train"},
      "'my job' is not a name for a job, which has letters, digits, '-', '_' and '.': choose another "
      "with --name");
  expect_refused({"--scheduler", "mpirun", "./train"},
                 "hookline does not start mpirun: print its command with --print, and run it yourself");
  sandbox.folder.write("bad.toml", "[ddp]\ncomm_hook = \"fp61\"\n");
  const ProcessResult result = run({"--scheduler", "slurm", "--print", "bad.toml", "./train"});
  EXPECT_THAT(result.err, HasSubstr("bad.toml:2:13: error: "));
  EXPECT_EQ(result.exit_code, 2);
}

TEST_F(Submit, SuggestsPrintForDryRun) {
  expect_refused({"--scheduler", "slurm", "--dry-run", "./train"},
                 "unknown flag '--dry-run'; did you mean '--print'?");
}

TEST_F(Submit, SaysWhyItCannotMakeItsFolder) {
  sandbox.folder.write("hookline-runs", "a file");
  const ProcessResult result = run({"--scheduler", "slurm", "./train"});
  EXPECT_THAT(result.err,
              HasSubstr("hookline: error: can't make the folder 'hookline-runs', where jobs and their "
                        "logs go: Not a directory\n"));
  EXPECT_EQ(result.exit_code, 2);
}

TEST_F(Submit, SaysWhatAPreemptionWouldCost) {
  const auto warning_of = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--print", "--scheduler"});
    std::string err = run(arguments).err;
    auto at = err.find("hookline: warning: resume");
    if (at == err.npos) at = err.find("hookline: warning: ");
    err.erase(0, at);
    return err.substr(0, err.find('\n') + 1);
  };
  EXPECT_EQ(warning_of({"slurm", "./train"}),
            "hookline: warning: the run keeps no checkpoints: after a preemption it begins again ([training] "
            "checkpoint_every_steps)\n");
  EXPECT_EQ(warning_of({"slurm", "--set", "training.resume=no", "run.toml", "./train"}),
            "hookline: warning: resume is \"no\" (from command line --set training.resume): a requeued job "
            "does not resume from its own checkpoints; \"auto\" does\n");
  EXPECT_THAT(
      run({"--print", "--scheduler", "slurm", "--set", "training.resume=no", "run.toml", "./train"}).out,
      ::testing::Not(HasSubstr("resume=auto")));
  EXPECT_EQ(warning_of({"kubernetes", "--image", "i", "run.toml", "./train"}),
            "hookline: warning: checkpoint_dir 'checkpoints' must be on a volume that all pods share, and "
            "the manifest "
            "mounts none: add yours, in a --template of your own\n");
}

TEST_F(Submit, PassesOnTheFoundConfigAndProfile) {
  sandbox.folder.write("base.toml", "[ddp]\ncomm_hook = \"fp16\"\n");
  sandbox.folder.write("hookline.toml",
                       "include = [\"base.toml\"]\n[profile.long.training]\nmax_steps = 9\n");
  EXPECT_THAT(run({"--print", "--scheduler", "mpirun", "--profile", "long", "./train"}).out,
              HasSubstr(" launch --config hookline.toml --profile long ./train\n"));
  // A container has none of these files, so the manifest holds their values.
  EXPECT_THAT(
      run({"--print", "--scheduler", "kubernetes", "--image", "i", "--profile", "long", "./train"}).out,
      HasSubstr(
          "  run.toml: |2\n    [ddp]\n    comm_hook = \"fp16\"\n\n    [training]\n    max_steps = 9\n---\n"));
}

TEST_F(Submit, ReportsMissingSlurm) {
  testing::ProcessOptions options = sandbox.options({"submit", "--scheduler", "slurm", "./train"});
  options.environment["PATH"] = "/nowhere";
  ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_THAT(result.err, ::testing::ContainsRegex("hookline: error: there is no 'sbatch' on this machine: "
                                                   "submit 'hookline-runs/train-[^']*' from a machine of "
                                                   "the cluster\n"));
  EXPECT_EQ(result.exit_code, 1);
}

/// Slurm's commands while the controller hangs: the one named by `hangs` writes its process id to a file and
/// never returns.
struct HungSlurm : Submit {
  explicit HungSlurm(const std::string& hangs = "scontrol") {
    sandbox.folder.write("slurm/sbatch", "#!/bin/sh\necho 42\n", true);
    sandbox.folder.write("slurm/" + hangs, "#!/bin/sh\necho $$ > pid\nsleep 1000\n", true);
  }

  testing::ProcessOptions options(std::vector<std::string> arguments) const {
    testing::ProcessOptions result = sandbox.options(std::move(arguments));
    result.environment["PATH"] = (sandbox.folder.path() / "slurm").string() + ":/usr/bin:/bin";
    return result;
  }

  bool is_asked() const {
    return testing::eventually([&] { return sandbox.has("pid") && !pid().empty(); });
  }
  std::string pid() const { return sandbox.read("pid"); }
  void expect_nothing_is_left() const {
    EXPECT_TRUE(testing::eventually([&] { return !testing::is_running(std::stoi(pid())); })) << pid();
  }

  /// Runs a sweep and sends it `signal` once it has called the hanging command.
  ProcessResult sweep_until(int signal) const {
    sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n[grid]\nargs.a = [1, 2]\n");
    std::filesystem::remove(sandbox.folder.path() / "pid");
    testing::Process sweep(HOOKLINE_BINARY, options({"sweep", "s.toml", "--scheduler", "slurm"}));
    EXPECT_TRUE(is_asked()) << sweep.err();
    sweep.signal(signal);
    ProcessResult result = sweep.wait();
    expect_nothing_is_left();
    return result;
  }
};

TEST_F(HungSlurm, SubmitStillStopsOnASignal) {
  testing::Process submit(HOOKLINE_BINARY, options({"submit", "--scheduler", "slurm", "./train"}));
  ASSERT_TRUE(is_asked()) << submit.err();
  submit.signal(SIGTERM);
  const ProcessResult result = submit.wait();
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: job 42 still runs, or waits to run; 'scancel 42' cancels it\n"));
  expect_nothing_is_left();
}

TEST_F(HungSlurm, LaunchStillStopsOnASignal) {
  testing::ProcessOptions launch = options({"launch", "./train"});
  for (const auto& [name, value] : {std::pair("SLURM_JOB_ID", "1"),
                                    {"SLURM_STEP_ID", "0"},
                                    {"SLURM_STEP_NUM_NODES", "2"},
                                    {"SLURM_NODEID", "1"},
                                    {"SLURM_STEP_NODELIST", "no-such-host-[1-2]"},
                                    {"SLURM_LOCALID", "0"}})
    launch.environment[name] = value;
  testing::Process process(HOOKLINE_BINARY, launch);
  ASSERT_TRUE(is_asked()) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 143);
  expect_nothing_is_left();
}

struct HungQueue : HungSlurm {
  HungQueue() : HungSlurm("squeue") {}
};

TEST_F(HungQueue, SweepStillStopsOnASignal) {
  const ProcessResult result = sweep_until(SIGTERM);
  EXPECT_EQ(result.exit_code, 143) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "hookline: job 42 continues, with 2 trials to come; the same 'hookline sweep' command collects "
          "its results, and 'scancel 42' cancels it\n"));
  // The next command first calls squeue to ask about the job, and that call hangs as well.
  EXPECT_EQ(sweep_until(SIGINT).exit_code, 130);
}

struct HungSbatch : HungSlurm {
  HungSbatch() : HungSlurm("sbatch") {}
};

TEST_F(HungSbatch, AfterASignalWarnsThatTheJobMayBeQueued) {
  const ProcessResult result = sweep_until(SIGTERM);
  EXPECT_EQ(result.exit_code, 143) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: sbatch was interrupted, and Slurm may have taken the job: "
                        "the same 'hookline sweep' command finds out, and continues from there\n"));
}

}  // namespace
}  // namespace hookline
