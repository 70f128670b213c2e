// `hookline submit`: which of the shell's variables apply, and how many GPUs it requests where it can't count
// any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/submit/submit.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProcessResult;

constexpr const char* kNotPassedOn = " is set here, but the job does not get it: ";

/// The warnings about variables that a job does not get.
std::string lost_of(const std::string& err) {
  std::istringstream lines(err);
  std::string lost;
  for (std::string line; std::getline(lines, line);)
    if (line.find(kNotPassedOn) != line.npos) lost += line + "\n";
  return lost;
}

TEST_F(Submit, UsesOnlyVariablesThatTheJobGets) {
  const auto cpus = [&](const Variables& variables, std::vector<std::string> more) {
    more.insert(more.begin(), {"--scheduler", "slurm", "--print"});
    more.push_back("./train");
    const ProcessResult result = run(more, variables);
    const auto at = result.out.find("--cpus-per-task=");
    return result.out.substr(at, result.out.find('\n', at) - at) + lost_of(result.err);
  };
  const std::string ranks = "HOOKLINE_LAUNCH__PROCESSES_PER_NODE";
  const std::string one = "--cpus-per-task=1", two = "--cpus-per-task=2", four = "--cpus-per-task=4";
  EXPECT_EQ(cpus({{ranks, "4"}}, {}), four);
  EXPECT_EQ(cpus({{ranks, "4"}}, {"--set", "launch.processes_per_node=2"}), two);
  EXPECT_EQ(cpus({{"OMP_NUM_THREADS", "3"}}, {"--set", "launch.processes_per_node=2"}), "--cpus-per-task=6");
  EXPECT_EQ(cpus({{"OMP_NUM_THREADS", "4,2"}}, {}), four);
  EXPECT_EQ(cpus({{"OMP_NUM_THREADS", "many"}}, {}), one);
  sandbox.folder.write("threads.toml", "[launch]\nomp_num_threads = 2\n");
  EXPECT_EQ(cpus({}, {"--config", "threads.toml"}), two);
  EXPECT_EQ(cpus({{"OMP_NUM_THREADS", "4"}}, {"--config", "threads.toml"}), four) << "as in a launch";
  EXPECT_EQ(cpus({{"OMP_NUM_THREADS", "4"}}, {"--set", "launch.omp_num_threads=2"}), two) << "as in a launch";
  EXPECT_EQ(cpus({{"OMP_NUM_THREADS", "4"}, {"HOOKLINE_LAUNCH__OMP_NUM_THREADS", "2"}}, {}), two);

  const std::string lost = "hookline: warning: " + ranks + kNotPassedOn +
                           "--export or SBATCH_EXPORT keeps it back: use --set instead, or name it there\n";
  for (const std::string option :
       {"--export=NONE", "--export=nil", "--export NONE", "--export=HOME,PATH", "--export=HOOKLINE_X=4"})
    EXPECT_EQ(cpus({{ranks, "4"}}, {"--scheduler-arg=" + option}), one + lost) << option;
  for (const std::string& option :
       std::vector<std::string>{"--export=ALL", "--export=ALL,HOME", "--export=HOME," + ranks,
                                "--export=" + ranks + "=4", "--export=A='x,y'," + ranks, "--export-file=x"})
    EXPECT_EQ(cpus({{ranks, "4"}}, {"--scheduler-arg=" + option}), four) << option;
  EXPECT_EQ(cpus({{ranks, "4"}}, {"--scheduler-arg=--export=" + ranks + "=2"}), two);
  EXPECT_EQ(cpus({{ranks, "4"}, {"SBATCH_EXPORT", "NONE"}}, {"--scheduler-arg=--export=ALL"}), one + lost)
      << "the variable wins over options in a script";
  EXPECT_EQ(cpus({{"HOOKLINE_OF_ANOTHER_PROGRAM", "4"}}, {"--scheduler-arg=--export=NONE"}), one);
}

TEST_F(Submit, ASweepOnSlurmCountsThreadsAsSubmitDoes) {
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\"]\n[grid]\nlaunch.processes_per_node = [1, 2]\n");
  const auto script = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"sweep", "s.toml", "--scheduler", "slurm", "--print"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::ProcessOptions options = sandbox.options(arguments);
    options.environment["OMP_NUM_THREADS"] = "3";
    return testing::run_process(HOOKLINE_BINARY, options).out;
  };
  EXPECT_THAT(script({}), HasSubstr("#SBATCH --cpus-per-task=6\n"));
  EXPECT_THAT(script({"--scheduler-arg=--export=NONE"}), HasSubstr("#SBATCH --cpus-per-task=2\n"));
}

TEST_F(Submit, WarnsOfVariablesThatTheJobDoesNotGet) {
  const auto run_with = [&](const Variables& variables, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--print");
    return run(arguments, variables);
  };
  const Variables nodes = {{"HOOKLINE_LAUNCH__NNODES", "3"}};
  const std::string lost = std::string("hookline: warning: HOOKLINE_LAUNCH__NNODES") + kNotPassedOn;
  ProcessResult result = run_with(nodes, {"--scheduler", "kubernetes", "--image", "i", "./train"});
  EXPECT_EQ(lost_of(result.err),
            lost + "Kubernetes passes on no variables of this shell: use --set instead\n");
  EXPECT_THAT(result.out, HasSubstr("completions: 1\n"));
  result = run_with(nodes, {"--scheduler", "mpirun", "./train"});
  EXPECT_EQ(lost_of(result.err),
            lost +
                "mpirun passes on only the variables that it is given: use --set instead, or "
                "--scheduler-arg=-x --scheduler-arg=HOOKLINE_LAUNCH__NNODES\n");
  EXPECT_THAT(result.out, ::testing::StartsWith("mpirun -np 1 "));
  const Variables token = {{"HOOKLINE_TOKEN", std::string(40, 'a')}};
  result = run_with(token, {"--scheduler", "mpirun", "--nodes", "2", "./train"});
  EXPECT_EQ(lost_of(result.err), "");
  EXPECT_THAT(result.out, AllOf(HasSubstr(" -x HOOKLINE_TOKEN "), Not(HasSubstr(token[0].second))));
  result = run_with(token, {"--scheduler", "mpirun", "--nodes", "2", "--scheduler-arg=-genvnone", "./train"});
  EXPECT_THAT(lost_of(result.err),
              AllOf(::testing::StartsWith(std::string("hookline: warning: HOOKLINE_TOKEN") + kNotPassedOn +
                                          "mpirun "),
                    ::testing::EndsWith(": use --scheduler-arg=-genvlist --scheduler-arg=HOOKLINE_TOKEN\n")));
  EXPECT_THAT(run_with(token, {"--scheduler", "kubernetes", "--image", "i", "./train"}).err,
              HasSubstr("hookline: HOOKLINE_TOKEN is not passed on: the job has a token of its own\n"));
  for (const std::vector<std::string>& passed : {std::vector<std::string>{"-x", "HOOKLINE_LAUNCH__NNODES"},
                                                 {"-x", "HOOKLINE_LAUNCH__NNODES=3"},
                                                 {"-genvall"},
                                                 {"-genvlist", "A,HOOKLINE_LAUNCH__NNODES"},
                                                 {"-genv", "HOOKLINE_LAUNCH__NNODES", "3"}}) {
    std::vector<std::string> arguments = {"--scheduler", "mpirun"};
    for (const std::string& word : passed) arguments.push_back("--scheduler-arg=" + word);
    arguments.push_back("./train");
    result = run_with(nodes, arguments);
    EXPECT_EQ(lost_of(result.err), "") << passed[0];
    EXPECT_THAT(result.out, HasSubstr("mpirun -np 3 ")) << passed[0];
  }
  sandbox.folder.write("hookline.toml", "[profile.long.launch]\nnnodes = 2\n");
  result = run_with({{"HOOKLINE_PROFILE", "long"}}, {"--scheduler", "mpirun", "./train"});
  EXPECT_EQ(lost_of(result.err), "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("mpirun -np 2 "), HasSubstr(" --profile long ./train\n")));
}

TEST_F(Submit, SaysHowManyGpusItRequestsWhenNoneCanBeCounted) {
  const std::string said =
      "hookline: processes_per_node is \"auto\", and this host has no GPUs to count, so the job asks for one "
      "GPU on each node; for more: --set launch.processes_per_node=N\n";
  const std::vector<std::string> slurm = {"--scheduler", "slurm", "--print"},
                                 kubernetes = {"--scheduler", "kubernetes", "--print", "--image", "i"};
  const auto err_of = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back("./train");
    return run(arguments).err;
  };
  for (const auto& arguments : {slurm, kubernetes}) {
    EXPECT_THAT(err_of(arguments, {"--set", "launch.device=cuda"}), HasSubstr(said));
    EXPECT_THAT(err_of(arguments, {"--set", "launch.backend=nccl"}), HasSubstr(said));
    EXPECT_THAT(err_of(arguments, {"--set", "launch.device=cuda", "--set", "launch.processes_per_node=1"}),
                ::testing::Not(HasSubstr(said)));
  }
  EXPECT_THAT(err_of(slurm, {"--set", "launch.device=cuda", "--scheduler-arg=--gpus-per-node=4"}),
              ::testing::Not(HasSubstr(said)));
}

}  // namespace
}  // namespace hookline
