// `hookline launch`: what it passes to the ranks, and what it returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/run_hookline.h"
#include "support/sanitized.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Launch, PrefixesEachLineWithItsRankAndKeepsLogs) {
  const Sandbox sandbox;
  sandbox.script("train", "echo one from $RANK; echo trouble $RANK >&2; printf 'no newline'\n");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node", "2", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.out),
              UnorderedElementsAre("[0] one from 0", "[0] no newline", "[1] one from 1", "[1] no newline"));
  EXPECT_THAT(lines_of(result.err),
              UnorderedElementsAre("hookline: 2 ranks of './train'; logs in " + sandbox.run_folder(),
                                   "[0] trouble 0", "[1] trouble 1"));
  EXPECT_EQ(testing::read_file(sandbox.run_folder() + "/attempt_0/1/stdout.log"), "one from 1\nno newline");
  EXPECT_EQ(testing::read_file(sandbox.run_folder() + "/attempt_0/0/stderr.log"), "trouble 0\n");
}

TEST(Launch, PrintsTheConfiguredPrefixOrNone) {
  const Sandbox sandbox;
  const ProcessResult colours = sandbox.run(
      {"launch", "--set", "logging.prefix_template=\x1b[1;32m${rank}\x1b[0m\x1b]0;title\a ", "echo", "x"});
  EXPECT_EQ(colours.out, "\x1b[1;32m0\x1b[0m\\x1b]0;title\\x07 x\n")
      << "of the escape sequences in a prefix, only colours are passed on";
  const ProcessResult result = sandbox.run({"launch", "--set", "logging.prefix_template=", "echo", "plain"});
  EXPECT_EQ(result.out, "plain\n");
}

TEST(Launch, ShowsOnlyTheSelectedOutputButLogsEverything) {
  const auto show = [](const std::vector<std::string>& sets) {
    const Sandbox sandbox;
    sandbox.script("train", "echo out; echo err >&2\n");
    std::vector<std::string> arguments = {"launch", "--processes-per-node", "3", "--set",
                                          "logging.level=error"};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    arguments.push_back("./train");
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    for (const std::string rank : {"0", "1", "2"}) {
      EXPECT_EQ(testing::read_file(sandbox.run_folder() + "/attempt_0/" + rank + "/stdout.log"), "out\n");
      EXPECT_EQ(testing::read_file(sandbox.run_folder() + "/attempt_0/" + rank + "/stderr.log"), "err\n");
    }
    return std::pair(lines_of(result.out), lines_of(result.err));
  };
  const auto some = show({"logging.show_ranks=0,2-9"});
  EXPECT_THAT(some.first, UnorderedElementsAre("[0] out", "[2] out"));
  EXPECT_THAT(some.second, UnorderedElementsAre("[0] err", "[2] err"));
  const auto errors =
      show({"logging.show=stderr", "logging.prefix_template=<${role_name} ${local_rank}/${rank}>: "});
  EXPECT_THAT(errors.first, ElementsAre());
  EXPECT_THAT(errors.second,
              UnorderedElementsAre("<default 0/0>: err", "<default 1/1>: err", "<default 2/2>: err"));
  EXPECT_THAT(show({"logging.show=stdout", "logging.show_ranks=1"}),
              ::testing::Pair(ElementsAre("[1] out"), ElementsAre()));
  EXPECT_THAT(show({"logging.show=none"}), ::testing::Pair(ElementsAre(), ElementsAre()));
}

TEST(Launch, UsesLittleMemoryAndLosesNoByteOfARankThatWritesFast) {
  constexpr std::uintmax_t kBytes =
      testing::kSanitized ? 32 << 20 : 256 << 20;  // memory is measured only without a sanitizer
  for (const std::string show : {"none", "all"}) {
    const Sandbox sandbox;
    // First no newline, then only carriage returns, then lines; and finally bytes that are not text.
    sandbox.script("train", "quarter=$((" + std::to_string(kBytes) +
                                " / 4))\n"
                                "head -c $quarter /dev/zero\n"
                                "head -c $quarter /dev/zero | tr '\\000' '\\r'\n"
                                "yes | head -c $quarter\n"
                                "head -c $quarter /dev/zero | tr '\\000' '\\377'\n"
                                "echo done >&2\nuntil [ -e go ]; do sleep 0.01; done\n");
    constexpr std::chrono::minutes kPatience{5};  // allows for a slow disk and a sanitizer
    testing::ProcessOptions options = sandbox.options({"launch", "--set", "logging.show=" + show, "./train"});
    options.limit = kPatience;
    Process process(HOOKLINE_BINARY, options);
    process.close_output();
    const std::string folder = sandbox.folder.path().string() + "/hookline-runs/latest/attempt_0/0/";
    const auto all_written = [&] {
      std::error_code none_yet;
      return std::filesystem::file_size(folder + "stderr.log", none_yet) == 5;
    };
    ASSERT_TRUE(testing::eventually(all_written, kPatience));
    if (!testing::kSanitized) {  // sanitizers delay frees
      EXPECT_LT(testing::peak_memory_kb(testing::agent_of(process.pid())), 32 * 1024);
    }
    sandbox.folder.write("go", "");
    EXPECT_EQ(process.wait().exit_code, 0);
    EXPECT_EQ(std::filesystem::file_size(folder + "stdout.log"), kBytes) << show;
  }
}

TEST(Launch, WritesNoTokenWhereItStartsNothing) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 0\n");
  const std::vector<std::string> two_nodes = {"--set", "launch.nnodes=2", "--set",
                                              "rendezvous.main_address=127.0.0.1"};
  std::vector<std::string> arguments = {"launch", "--dry-run"};
  arguments.insert(arguments.end(), two_nodes.begin(), two_nodes.end());
  arguments.emplace_back("./train");
  const ProcessResult plan = sandbox.run(arguments);
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_FALSE(sandbox.has("xdg/hookline/token"));
  EXPECT_EQ(sandbox.run({"launch", "./train"}).exit_code, 0);
  EXPECT_FALSE(sandbox.has("xdg/hookline/token")) << "one node needs none";
}

TEST(Launch, ThrottlesProgressBars) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      "for i in 1 2 3 4 5 6 7 8 9; do printf '\\r%s0%%' $i; sleep 0.2; done; printf '\\r100%%\\n'\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_LE(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_THAT(line, ::testing::MatchesRegex("\\[0\\] [0-9]+0%"));
  EXPECT_EQ(lines.back(), "[0] 100%");
}

TEST(Launch, LimitsItsOwnMessagesToTheLogLevel) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"launch", "--set", "logging.level=warning", "true"}).err, "");
}

TEST(Launch, NeverMixesTheLinesOfRanks) {
  const Sandbox sandbox;
  sandbox.script("train", R"(line=$(printf "%0500d" $RANK); i=0
while [ $i -lt 2000 ]; do echo $line; i=$((i+1)); done
)");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node=2", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  const std::string zero = "[0] " + std::string(500, '0'), one = "[1] " + std::string(499, '0') + "1";
  const std::vector<std::string> lines = lines_of(result.out);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), zero), 2000);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), one), 2000);
  EXPECT_EQ(lines.size(), 4000u);
}

TEST(Launch, PassesTheProgramsArgumentsOnUntouched) {
  const Sandbox sandbox;
  sandbox.folder.write("a.toml", "[launch]\nprocesses_per_node = 1\n");
  sandbox.script("train", "for argument; do echo \"<$argument>\"; done\n");
  const ProcessResult result = sandbox.run({"launch", "--config", "a.toml", "./train", "--config", "b", "-x",
                                            "--help", "", "two words", "--set", "--"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.out), ElementsAre("[0] <--config>", "[0] <b>", "[0] <-x>", "[0] <--help>",
                                                "[0] <>", "[0] <two words>", "[0] <--set>", "[0] <-->"));
}

TEST(Launch, WritesTheResolvedConfigForTheRanks) {
  const Sandbox sandbox;
  sandbox.folder.write("run.toml", "[ddp]\ncomm_hook = \"power_sgd\"\n");
  sandbox.script(
      "train",
      "cat $HOOKLINE_RUN_DIR/resolved.toml; echo config $HOOKLINE_CONFIG; echo folder $HOOKLINE_RUN_DIR\n");
  const ProcessResult result =
      sandbox.run({"launch", "--config", "run.toml", "--comm-wrapper", "fp16", "--max-steps", "2000",
                   "--state-option", "matrix_approximation_rank=4", "./train"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("comm_hook = \"power_sgd\""));
  EXPECT_THAT(result.out, HasSubstr("comm_wrapper = \"fp16\""));
  EXPECT_THAT(result.out, HasSubstr("matrix_approximation_rank = 4"));
  EXPECT_THAT(result.out, HasSubstr("max_steps = 2000"));
  EXPECT_THAT(result.out, HasSubstr("[0] folder " + sandbox.run_folder() + "\n"));
  EXPECT_THAT(result.out, HasSubstr("[0] config " + sandbox.run_folder() + "/resolved.json\n"));
  const auto json = nlohmann::json::parse(testing::read_file(sandbox.run_folder() + "/resolved.json"));
  EXPECT_EQ(json["training"]["max_steps"]["value"], 2000);
  EXPECT_EQ(json["training"]["max_steps"]["where"], "--max-steps");
}

TEST(Launch, RunsAPythonScriptWrittenForTorchrun) {
  const Sandbox sandbox;
  sandbox.folder.write("train.py", R"(import os, socket, sys
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
         "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"]
print(*[os.environ[name] for name in names], *sys.argv[1:])
run = os.environ["HOOKLINE_RUN_DIR"]
assert os.environ["TORCHELASTIC_RUN_ID"] == os.path.basename(run)
assert os.environ["TORCHELASTIC_ERROR_FILE"] == os.path.join(run, "attempt_0", os.environ["RANK"], "error.json")
assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"  # so the launcher serves the store, which is up already
socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))).close()
)");
  const ProcessResult result =
      sandbox.run({"launch", "--processes-per-node", "2", "train.py", "--epochs", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(lines_of(result.out),
              UnorderedElementsAre("[0] 0 0 2 2 0 1 0 2 default 127.0.0.1 0 0 --epochs 1",
                                   "[1] 1 1 2 2 0 1 1 2 default 127.0.0.1 0 0 --epochs 1"));
}

TEST(Launch, PassesTheStoreSocketToRankZeroOnly) {
  const Sandbox sandbox;
  sandbox.folder.write("look.py", R"(import os, socket, stat
sockets = [fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")
           and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{fd}").st_mode)]
sockets.remove(int(os.environ["HOOKLINE_STATUS_FD"]))
given = os.environ.get("HOOKLINE_STORE_FD")
if given is None:
    print("none", sockets, os.environ["MASTER_ADDR"])
else:
    store = socket.socket(fileno=int(given))
    address, port = store.getsockname()
    print(address, port == int(os.environ["MASTER_PORT"]), sockets == [int(given)],
          store.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), os.environ["MASTER_ADDR"])
)");
  // The launcher withholds the socket from a Python program, so a shell script hides that this is one.
  sandbox.script("look", "exec python3 look.py\n");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node", "3", "./look"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(lines_of(result.out), UnorderedElementsAre("[0] 127.0.0.1 True True 0 127.0.0.1",
                                                         "[1] none [] 127.0.0.1", "[2] none [] 127.0.0.1"));
}

TEST(Launch, GivesRanksEmptyStandardInput) {
  const Sandbox sandbox;
  ProcessOptions options = sandbox.options({"launch", "cat"});
  options.input = "typed by the user\n";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Launch, LeavesTheUsersOmpNumThreadsAlone) {
  const Sandbox sandbox;
  sandbox.script("train", "echo $OMP_NUM_THREADS\n");
  ProcessOptions options = sandbox.options({"launch", "./train"});
  options.environment["OMP_NUM_THREADS"] = "77";
  EXPECT_EQ(testing::run_process(HOOKLINE_BINARY, options).out, "[0] 77\n");
  EXPECT_EQ(sandbox.run({"launch", "--set", "launch.omp_num_threads=5", "./train"}).out, "[0] 5\n");
}

TEST(Launch, ShowsItsPlanWithoutStartingAnything) {
  const Sandbox sandbox;
  sandbox.script("train", "echo started >started\n");
  auto options = sandbox.options({"launch", "--dry-run", "--processes-per-node", "2", "--set",
                                  "launch.max_restarts=3", "./train", "--name", "it's new", "-x"});
  options.environment["OMP_NUM_THREADS"] = "5";
  options.environment["MALLOC_TRIM_THRESHOLD_"] = "1";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const std::string folder = std::filesystem::canonical(sandbox.folder.path()).string();
  const std::string run = folder + "/hookline-runs/DATE-TIME-PID";
  EXPECT_THAT(result.out, ::testing::MatchesRegex("2 ranks on [^\n]*; nothing is started\n(.|\n)*"));
  EXPECT_THAT(result.out, HasSubstr("\n\ncommand\n  ./train --name 'it'\\''s new' -x\nprogram\n"));
  EXPECT_THAT(result.out, HasSubstr("\nlogs\n  " + run + "/attempt_0/RANK/\n"));
  EXPECT_THAT(result.out, HasSubstr("\nrank 1\n  RANK=1\n  LOCAL_RANK=1\n  WORLD_SIZE=2\n"));
  EXPECT_THAT(result.out, HasSubstr("  MASTER_PORT=a port that is free at the start\n"));
  EXPECT_THAT(result.out, HasSubstr("  TORCHELASTIC_MAX_RESTARTS=3\n"));
  EXPECT_THAT(result.out, HasSubstr("  OMP_NUM_THREADS=5\n  HOOKLINE_CONFIG=" + run + "/resolved.json\n"));
  EXPECT_FALSE(sandbox.has("started"));
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Launch, BindsEachRankToItsCores) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  if (CPU_COUNT(&cores) < 2) GTEST_SKIP() << "one core";
  const Sandbox sandbox;
  sandbox.script("train", "grep Cpus_allowed_list /proc/self/status\n");
  const std::vector<std::string> flags = {"launch", "--processes-per-node", "2", "--set",
                                          "launch.binding=core"};
  auto launch = flags, dry_run = flags;
  launch.push_back("./train");
  dry_run.insert(dry_run.end(), {"--dry-run", "./train"});
  const std::vector<std::string> bound = lines_of(sandbox.run(launch).out);
  ASSERT_EQ(bound.size(), 2u);
  const std::string plan = sandbox.run(dry_run).out;
  std::set<std::string> seen;
  for (const std::string& line : bound) {
    const std::string list = line.substr(line.find('\t') + 1);
    seen.insert(list);
    EXPECT_THAT(plan, HasSubstr("rank " + line.substr(1, 1) + ", bound to cores " + list + "\n"));
  }
  EXPECT_EQ(seen.size(), 2u) << "each has cores of its own";
}

TEST(Launch, RefusesToMixRecordedGradients) {
  const Sandbox sandbox;
  sandbox.script("train", "echo started\n");
  const auto launch = [&](const std::string& folder) {
    return sandbox.run({"launch", "--set", "training.record_gradients=" + folder, "./train"});
  };
  EXPECT_EQ(launch("new").exit_code, 0);
  sandbox.folder.write("old/step0007.rank1.safetensors", "");
  const ProcessResult mixed = launch("old");
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_EQ(mixed.out, "");
  EXPECT_EQ(
      mixed.err,
      "hookline: error: record_gradients = 'old' (from command line --set training.record_gradients) holds "
      "recorded gradients already (step0007.rank1.safetensors): name another folder, or remove those "
      "files\n");
  const ProcessResult file = launch("train");
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_EQ(
      file.err,
      "hookline: error: record_gradients = 'train' (from command line --set training.record_gradients): the "
      "folder can't be made: Not a directory\n");
}

TEST(Launch, SpawnsNothingWhenTheConfigIsWrong) {
  const Sandbox sandbox;
  sandbox.script("train", "touch started\n");
  sandbox.folder.write("run.toml", "[ddp]\ncomm_hok = \"fp16\"\n");
  const ProcessResult result = sandbox.run({"launch", "--config", "run.toml", "./train"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, sandbox.run({"config", "validate", "run.toml"}).err);
  EXPECT_THAT(result.err, HasSubstr("run.toml:2:1: error: unknown key 'comm_hok' in [ddp]\n"));
  EXPECT_FALSE(sandbox.has("started"));
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Launch, SaysWhichFlagHoldsAWrongValue) {
  const Sandbox sandbox;
  const ProcessResult result =
      sandbox.run({"launch", "--processes-per-node", "0", "--comm-hook", "power_sdg", "true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--processes-per-node: error: "));
  EXPECT_THAT(result.err, HasSubstr("--comm-hook: error: "));
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Launch, NamesAProgramThatIsNotThere) {
  const Sandbox sandbox;
  sandbox.folder.write("plain", "data");
  sandbox.script("here", "true\n");
  ASSERT_EQ(mkfifo((sandbox.folder.path() / "pipe").c_str(), 0700), 0);
  const std::string no_program = ", not a program: name the file that is to run\n";
  const std::vector<std::tuple<std::string, std::string, int>> cases = {
      {"./nothing", "hookline: error: program './nothing' does not exist\n", 127},
      {"hookline-no-such-program",
       "hookline: error: program 'hookline-no-such-program' was not found in PATH\n", 127},
      {"here", "hookline: error: program 'here' was not found in PATH; did you mean './here'?\n", 127},
      {"./plain", "hookline: error: program './plain' is not executable; try: chmod +x ./plain\n", 126},
      {"./pipe", "hookline: error: program './pipe' is a named pipe" + no_program, 126},
      {"/dev/null", "hookline: error: program '/dev/null' is a device" + no_program, 126},
      {"./", "hookline: error: program './' is a directory\n", 126}};
  for (const auto& [program, message, code] : cases) {
    const ProcessResult result = sandbox.run({"launch", program});
    EXPECT_EQ(result.err, message);
    EXPECT_EQ(result.exit_code, code);
  }
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Launch, ExplainsAFileThatTheSystemCannotRun) {
  const Sandbox sandbox;
  sandbox.folder.write("bare", "echo no interpreter named\n", true);
  sandbox.folder.write("lost", "#!/no/such/interpreter\n", true);
  const ProcessResult bare = sandbox.run({"launch", "--set", "logging.level=error", "./bare"});
  EXPECT_EQ(bare.err,
            "hookline: error: can't run './bare': Exec format error\n"
            "  a script needs a first line that names its interpreter, such as #!/bin/sh\n");
  EXPECT_EQ(bare.exit_code, 126);
  const ProcessResult lost = sandbox.run({"launch", "--set", "logging.level=error", "./lost"});
  EXPECT_EQ(lost.err,
            "hookline: error: can't run './lost': No such file or directory\n"
            "  the file is there: the interpreter that it names is not\n");
  EXPECT_EQ(lost.exit_code, 126);
}

TEST(Launch, NamesAFolderThatCannotHoldRuns) {
  const Sandbox sandbox;
  sandbox.folder.write("file", "");
  sandbox.script("train", "touch started\n");
  const ProcessResult result = sandbox.run({"launch", "--set", "logging.dir=file/runs", "./train"});
  EXPECT_EQ(result.err,
            "hookline: error: can't make a run folder in 'file/runs': Not a directory\n"
            "  choose another with: --set logging.dir=DIR\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_FALSE(sandbox.has("started"));
}

TEST(Launch, TakesAHookThatTheProgramRegisters) {
  const Sandbox sandbox;
  const ProcessResult result = sandbox.run(
      {"launch", "--comm-hook", "sample_hook", "--state-option", "max_norm=2", PROGRAM_WITH_HOOK});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(testing::read_file(sandbox.run_folder() + "/resolved.toml"), HasSubstr("max_norm = 2"));
  const ProcessResult without = sandbox.run({"launch", "--comm-hook", "sample_hook", "true"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--comm-hook: error: "));
}

TEST(Launch, RaisesItsOwnOpenFileLimitButNotTheRanks) {
  const Sandbox sandbox;
  sandbox.script("train", "[ $RANK != 39 ] || ulimit -n\n");
  const ProcessResult result =
      testing::run_process("sh", sandbox.options({"-c", "ulimit -S -n 64; exec " HOOKLINE_BINARY
                                                        " launch --processes-per-node 40 ./train"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "[39] 64\n");
}

TEST(Launch, ContinuesWhenALogCannotGrow) {
  const Sandbox sandbox;
  sandbox.script("train", "i=0; while [ $i -lt 300 ]; do printf '%0999d\\n' 7; i=$((i+1)); done\n");
  const ProcessResult result = testing::run_process(
      "sh", sandbox.options({"-c", "ulimit -f 128; exec " HOOKLINE_BINARY " launch ./train"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(lines_of(result.out).size(), 300u);
  EXPECT_THAT(
      lines_of(result.err),
      ElementsAre(::testing::_,
                  "hookline: warning: can't write '" + sandbox.run_folder() +
                      "/attempt_0/0/stdout.log' any more (File too large); the run continues without it"));
}

TEST(Launch, ContinuesWhenNobodyReadsItsOutput) {
  const Sandbox sandbox;
  sandbox.script("train", "echo ready; until [ -e go ]; do sleep 0.01; done; seq 1 20000; touch finished\n");
  testing::Process process(HOOKLINE_BINARY, sandbox.options({"launch", "./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  process.close_output();
  sandbox.folder.write("go", "");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(sandbox.has("finished"));
  EXPECT_THAT(result.err, HasSubstr("hookline: warning: can't write to standard output any more (Broken "
                                    "pipe); the run continues, and its logs are complete\n"));
  EXPECT_EQ(lines_of(testing::read_file(sandbox.run_folder() + "/attempt_0/0/stdout.log")).size(), 20001u);
}

TEST(Launch, KeepsItsExitCodeWhenAllOutputIsClosed) {
  const Sandbox sandbox;
  sandbox.script("train", "echo out; echo err >&2; touch finished; exit 5\n");
  const ProcessResult result = testing::run_process(
      "sh", sandbox.options(
                {"-c", "{ " HOOKLINE_BINARY " launch ./train 2>&1; echo $? >code; } | true; cat code"}));
  EXPECT_EQ(result.out, "5\n");
  EXPECT_TRUE(sandbox.has("finished"));
}

TEST(Launch, RefusesAPlugInBuiltForAnotherTorch) {
  const Sandbox sandbox;
  sandbox.folder.write("run.toml", "[ddp]\nplugins = [\"" ROWS_ONLY_FOLDER "/old_plugin.so\"]\n");
  const ProcessResult result =
      sandbox.run({"launch", "--config", "run.toml", ROWS_ONLY_FOLDER "/plain_program"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("old_plugin.so' can't be used\n"));
  EXPECT_THAT(
      result.err,
      HasSubstr("~ it was built with torch 1.2.3, hookline 0.1.0; the program was built with torch 2.11.0, "
                "hookline 0.1.0: build both with the same\n"));
  EXPECT_FALSE(sandbox.has("hookline-runs"));

  // A program without build information is accepted: it checks the build itself when it loads the plug-in.
  EXPECT_EQ(sandbox.run({"launch", "--config", "run.toml", "true"}).exit_code, 0);
}

TEST(Launch, RefusesCudaWhereThereIsNoGpu) {
  const Sandbox sandbox;
  const ProcessResult result = sandbox.run({"launch", "--set", "launch.device=cuda", "true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: device = \"cuda\" (from command line --set launch.device) needs a GPU, but "
            "there is no GPU "
            "here: no "
            "/dev/nvidia0, or CUDA_VISIBLE_DEVICES hides it (it is '')\n"
            "  set device = \"cpu\", or \"auto\" to use GPUs where there are any\n");
  const ProcessResult nccl = sandbox.run({"launch", "--set", "launch.backend=nccl", "true"});
  EXPECT_EQ(nccl.exit_code, 2);
  EXPECT_THAT(nccl.err,
              AllOf(StartsWith("hookline: error: backend = \"nccl\" (from command line --set launch.backend) "
                               "connects GPUs, but there is no GPU here: "),
                    EndsWith("\n  set backend = \"gloo\", or \"auto\" to use GPUs where there are any\n")));
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Launch, WarnsOfSettingsThatNoRankHasRead) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 0\n");
  sandbox.folder.write("run.toml", "[ddp]\ncomm_hook = \"power_sgd\"\n[training]\nmax_steps = 2000\n");
  const std::string settings =
      "  ddp.comm_hook = \"power_sgd\" (from file run.toml:2:1)\n"
      "  training.max_steps = 2000 (from file run.toml:4:1)\n";
  const std::string at_start =
      "hookline: warning: './train' is a script, so these settings have no effect unless it uses "
      "hookline's library or starts a program that does:\n" +
      settings;
  const std::string at_end =
      "hookline: warning: no rank has read the config, so these settings had no effect (hookline's library "
      "reads it in Accelerator::from_env and, in Python, in hookline.apply):\n" +
      settings;
  const ProcessResult script = sandbox.run({"launch", "--config", "run.toml", "./train"});
  EXPECT_EQ(script.exit_code, 0);
  EXPECT_THAT(script.err, AllOf(HasSubstr(at_start), ::testing::EndsWith(at_end)));

  const ProcessResult plan = sandbox.run({"launch", "--config", "run.toml", "--dry-run", "./train"});
  EXPECT_EQ(plan.err, at_start);
  const ProcessResult plain = sandbox.run({"launch", "--config", "run.toml", "/bin/true"});
  EXPECT_THAT(plain.err, AllOf(Not(HasSubstr("is a script")), ::testing::EndsWith(at_end)));
  for (const std::string shell : {"/bin/sh", "/usr/bin/python3"})
    if (std::filesystem::exists(shell)) {
      EXPECT_THAT(
          sandbox.run({"launch", "--config", "run.toml", shell, "-c", ""}).err,
          AllOf(HasSubstr("'" + shell + "' is an interpreter, so these"), ::testing::EndsWith(at_end)));
    }

  const ProcessResult failed = sandbox.run({"launch", "--config", "run.toml", "/bin/false"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr(at_end));
  // The library creates this marker; here a script stands in for a program that uses it.
  sandbox.script("train", ": > $HOOKLINE_RUN_DIR/config_read; exit 3\n");
  const ProcessResult read = sandbox.run({"launch", "--config", "run.toml", "./train"});
  EXPECT_EQ(read.exit_code, 3);
  EXPECT_THAT(read.err, Not(HasSubstr("no rank has read")));
  // No setting is given that only a rank would read.
  EXPECT_THAT(sandbox.run({"launch", "--set", "logging.level=warning", "/bin/true"}).err, "");
}

TEST(Launch, LetsTheSchedulersAddressOverrideTheConfigFile) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 0\n");
  sandbox.folder.write("run.toml", "[launch]\nnnodes = 2\n[rendezvous]\nmain_address = \"login.example\"\n");
  testing::ProcessOptions options =
      sandbox.options({"launch", "--config", "run.toml", "--dry-run", "./train"});
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"OMPI_COMM_WORLD_SIZE", "2"},
                                                        {"OMPI_COMM_WORLD_RANK", "0"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                        {"PMIX_NAMESPACE", "7"}})
    options.environment[name] = value;
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err,
            "hookline: OMPI_COMM_WORLD_LOCAL_SIZE sets rendezvous.main_address to 127.0.0.1, overriding "
            "login.example (from file run.toml:4:1); --set rendezvous.main_address=VALUE overrides both\n"
            "hookline: Open MPI: node 0 of 2; the nodes meet at 127.0.0.1\n");
  EXPECT_THAT(result.out, HasSubstr("MASTER_ADDR=127.0.0.1\n"));

  // An address given on the command line wins over the scheduler's.
  options.arguments.insert(options.arguments.begin() + 1, {"--set", "rendezvous.main_address=localhost"});
  const ProcessResult given = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(given.err, "hookline: Open MPI: node 0 of 2; the nodes meet at localhost\n");
}

/// The result of a dry run of one rank with a scheduler's variables set.
ProcessResult dry_run_under(const Sandbox& sandbox,
                            const std::vector<std::pair<std::string, std::string>>& variables,
                            const std::vector<std::string>& sets = {}) {
  std::vector<std::string> arguments = {"launch", "--dry-run"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  arguments.push_back("/bin/true");
  testing::ProcessOptions options = sandbox.options(arguments);
  for (const auto& [name, value] : variables) options.environment[name] = value;
  return testing::run_process(HOOKLINE_BINARY, options);
}

constexpr const char* kAlone =
    "; this launch runs alone, as a run of one node\n  if it is one of several, set [launch] nnodes and "
    "node_rank, "
    "and [rendezvous] main_address; set nnodes = 1 if it is not\n";

TEST(Launch, IgnoresAHostListThatIsNotARegularFile) {
  const Sandbox sandbox;
  const std::string pipe = (sandbox.folder.path() / "ff").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [job, list] : {std::pair("PBS_JOBID", "PBS_NODEFILE"),
                                  {"LSB_JOBID", "LSB_DJOB_HOSTFILE"},
                                  {"JOB_ID", "PE_HOSTFILE"}})
    for (const auto& [file, kind] :
         {std::pair(pipe, "a named pipe"), {"/dev/zero", "a device"}, {"/dev/null", "a device"}}) {
      const ProcessResult result = dry_run_under(sandbox, {{job, "1"}, {list, file}});
      EXPECT_THAT(result.err, AllOf(StartsWith(std::string("hookline: warning: ") + list + "=" + file +
                                               " can't be read: it is " + kind),
                                    EndsWith(kAlone)));
      EXPECT_EQ(result.exit_code, 0);
    }
  const std::string hosts =
      dry_run_under(sandbox, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"HYDRA_HOST_FILE", pipe}}).err;
  EXPECT_THAT(hosts, HasSubstr("HYDRA_HOST_FILE=" + pipe + " can't be read: it is a named pipe"));
}

TEST(Launch, WarnsWhenABadVariableMakesItRunAlone) {
  const Sandbox sandbox;
  EXPECT_THAT(dry_run_under(sandbox, {{"PMI_RANK", "abc"}, {"PMI_SIZE", "2"}}).err,
              AllOf(StartsWith("hookline: warning: PMI_RANK=abc is not a number"), EndsWith(kAlone)));
  EXPECT_THAT(
      dry_run_under(sandbox, {{"JOB_COMPLETION_INDEX", "0"}}).err,
      AllOf(StartsWith("hookline: warning: JOB_COMPLETION_INDEX=0, and nothing says"), EndsWith(kAlone)));
  EXPECT_EQ(dry_run_under(sandbox, {{"PMI_RANK", "abc"}, {"PMI_SIZE", "2"}}, {"launch.nnodes=1"}).err, "");
  EXPECT_THAT(dry_run_under(sandbox, {{"JOB_COMPLETION_INDEX", "0"}},
                            {"launch.nnodes=2", "rendezvous.main_address=10.9.9.9"})
                  .err,
              Not(HasSubstr("nothing says")));
  EXPECT_EQ(dry_run_under(sandbox, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).err, "");
  const std::string one = sandbox.folder.write("one", "host\nhost\n").string();
  EXPECT_EQ(dry_run_under(sandbox, {{"PBS_JOBID", "1"}, {"PBS_NODEFILE", one}}).err, "");
}

TEST(Launch, RefusesAVariableThatIsOutOfRange) {
  const Sandbox sandbox;
  const ProcessResult result = dry_run_under(sandbox, {{"PMI_RANK", "1"}, {"PMI_SIZE", "99999999999"}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("hookline: error: PMI_SIZE=99999999999 is not a number from 1 to 4096"));
}

TEST(Launch, SaysWhichAddressWinsUnderEachScheduler) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 0\n");
  sandbox.folder.write("run.toml", "[launch]\nnnodes = 2\n[rendezvous]\nmain_address = \"localhost\"\n");
  const std::string nodes = sandbox.folder.write("nodes", "127.0.0.3\n127.0.0.4\n").string();
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const auto launch = [&](const Variables& variables, std::vector<std::string> more = {}) {
    more.insert(more.begin(), "launch");
    more.insert(more.end(), {"--config", "run.toml", "--dry-run", "./train"});
    testing::ProcessOptions options = sandbox.options(more);
    for (const auto& [name, value] : variables) options.environment[name] = value;
    return testing::run_process(HOOKLINE_BINARY, options);
  };
  const auto overrides = [](const std::string& value, const std::string& from) {
    return "hookline: " + from + " sets rendezvous.main_address to " + value +
           ", overriding localhost (from file run.toml:4:1); --set rendezvous.main_address=VALUE "
           "overrides "
           "both\n";
  };
  const Variables pbs = {{"PBS_JOBID", "1.s"}, {"PBS_NODEFILE", nodes}, {"PBS_TASKNUM", "2"}};
  Variables second = pbs;
  second.emplace_back("PBS_NODENUM", "1");
  EXPECT_EQ(launch(second).err, overrides("127.0.0.3", "PBS_NODEFILE") +
                                    "hookline: PBS: node 1 of 2; the nodes meet at 127.0.0.3\n");
  EXPECT_EQ(launch(pbs).err,
            "hookline: warning: the hosts of PBS's job, in PBS_NODEFILE, do not include this one, " +
                testing::host_name() + "\n" + overrides("127.0.0.3", "PBS_NODEFILE") +
                "hookline: PBS: one node of 2; the nodes meet at 127.0.0.3\n");
  const Variables script = {
      {"PBS_JOBID", "1.s"}, {"PBS_NODEFILE", nodes}, {"PBS_TASKNUM", "1"}, {"PBS_NODENUM", "0"}};
  const ProcessResult refused = launch(script);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(StartsWith("hookline: error: this job has 2 nodes, "),
                                 HasSubstr("on the first of them only"), HasSubstr("'pbsdsh'")));
  EXPECT_EQ(launch(script, {"--set", "launch.node_rank=1"}).exit_code, 0);

  const Variables hydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}};
  EXPECT_THAT(launch(hydra).err,
              AllOf(StartsWith("hookline: Hydra's variables do not say where"),
                    EndsWith(": rendezvous.main_address stays localhost (from file run.toml:4:1)\n"
                             "hookline: Hydra: node 1 of 2; the nodes meet at localhost\n")));
  EXPECT_EQ(launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}).err,
            overrides("127.0.0.1", "MPI_LOCALNRANKS") +
                "hookline: Hydra: node 1 of 2; the nodes meet at 127.0.0.1\n");
  EXPECT_EQ(
      launch({{"LSB_JOBID", "1"}, {"LSB_HOSTS", "127.0.0.5 127.0.0.6"}}, {"--set", "launch.node_rank=1"}).err,
      "hookline: warning: the hosts of LSF's job, in LSB_HOSTS, do not include this one, " +
          testing::host_name() + "\n" + overrides("127.0.0.5", "LSB_HOSTS") +
          "hookline: LSF: node 1 of 2; the nodes meet at 127.0.0.5\n");
  EXPECT_EQ(launch({{"JOB_ID", "1"}, {"PE_HOSTFILE", nodes}}, {"--set", "launch.node_rank=1"}).err,
            "hookline: warning: the hosts of Grid Engine's job, in PE_HOSTFILE, do not include this one, " +
                testing::host_name() + "\n" + overrides("127.0.0.3", "PE_HOSTFILE") +
                "hookline: Grid Engine: node 1 of 2; the nodes meet at 127.0.0.3\n");
}

TEST(Launch, UnderHydrasMpiexecFindsItsNodeRank) {
  const char* const mpiexec = "/usr/bin/mpiexec.hydra";
  if (!std::filesystem::exists(mpiexec)) GTEST_SKIP() << "no " << mpiexec << " (Debian's mpich)";
  const Sandbox sandbox;
  sandbox.script("train", "exit 0\n");
  testing::ProcessOptions options = sandbox.options({});
  options.arguments = {"-launcher",     "fork",   "-prepend-rank", "-n",     "2",
                       HOOKLINE_BINARY, "launch", "--dry-run",     "./train"};
  ProcessResult result = testing::run_process(mpiexec, options);
  // On a busy machine, mpiexec.hydra occasionally dies of SIGPIPE before it has started anything.
  for (int i = 0; i < 3 && result.exit_code == 128 + SIGPIPE && result.out.empty() && result.err.empty(); ++i)
    result = testing::run_process(mpiexec, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* node : {"0", "1"})
    EXPECT_THAT(result.out + result.err,
                HasSubstr(std::string("Hydra: node ") + node + " of 2; the nodes meet at 127.0.0.1\n"));
}

}  // namespace
}  // namespace hookline
