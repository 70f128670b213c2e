// Imports of shell scripts that start a program with torchrun or accelerate launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/import/import_parts.h"
#include "launcher/import/imported.h"
#include "launcher/import/shell_script.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::problem;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using testing::values;

/// Keeps this machine's Accelerate config from influencing the tests.
const int kNoAccelerateHere = setenv("HF_HOME", "/nowhere", 1);

/// The words of each command of a script.
std::vector<std::string> commands(const std::string& text) {
  std::vector<std::string> lines;
  for (const ShellCommand& command : read_shell_script(text).commands) {
    std::string line;
    for (const ShellWord& word : command.words) line += "[" + word.text + (word.is_open ? "?]" : "]");
    lines.push_back(line);
  }
  return lines;
}

TEST(ShellScript, IsReadAsAShellReadsIt) {
  EXPECT_THAT(commands("a 'b  c' \"d\\\"e\" f\\ g h\\\ni # j\nk;l&&m|n"),
              ElementsAre("[a][b  c][d\"e][f g][hi]", "[k]", "[l]", "[m]", "[n]"));
  EXPECT_THAT(commands("A=1 B=\"x y\"\nc $A \"$B\" $B ${A}2 '$A' $C"),
              ElementsAre("[c][1][x y][x][y][12][$A][$C?]"));
  EXPECT_THAT(commands("c ${A:-2} ${A:-\"$B\"} ${A:=x y}; A=; c ${A:-2} ${A-3}."),
              ElementsAre("[c][2][${A:-\"$B\"}?][x][y]", "[c][2][.]"));
  EXPECT_THAT(commands("A=(--x 1 \"y z\")\nA+=(--w)\nc \"${A[@]}\" ${A[*]} \"$@\""),
              ElementsAre("[c][--x][1][y z][--w][--x][1][y][z][--w][$@?]"));
  EXPECT_THAT(commands("N=3\nc $((N * (2 + ${N}) - 10 / 5 % 4)) $((M + 1)) $((N / 0)) $((010))"),
              ElementsAre("[c][13][$((M + 1))?][$((N / 0))?][$((010))?]"));
  EXPECT_THAT(commands("H=$(hostname -f | head -1)\nc $H `date +%s` \"$(cat 'a b')\""),
              ElementsAre("[c][$H?][`date +%s`?][$(cat 'a b')?]"));
  EXPECT_THAT(commands("cat <<-'END' > f\n\tdon't run\n\tEND\nc <<X\n\"\nX\nd"),
              ElementsAre("[cat]", "[c]", "[d]"));
}

TEST(ShellScript, DoesNotGuessWhatDependsOnACondition) {
  EXPECT_THAT(commands("N=1\nif [ -e x ]; then N=2; fi\nc $N"), Contains("[c][$N?]"));
  EXPECT_THAT(commands("N=1\nif [ -e x ]; then N=1; fi\nc $N"), Contains("[c][1]"));
  EXPECT_THAT(commands("N=1\n[ -e x ] && N=2\nc $N"), Contains("[c][$N?]"));
  EXPECT_THAT(commands("for N in 1 2; do c $N; done"), Contains("[c][$N?]"));
}

TEST(Import, ConvertsAnAccelerateLaunchCommand) {
  const std::string file = IMPORTS "/accelerate_launch.sh";
  const Imported imported = import_any(testing::read_file(file), file);
  EXPECT_EQ(imported.kind,
            "a command line of accelerate launch, over the config '" IMPORTS "/two_machines.yaml'");
  EXPECT_THAT(values(imported), UnorderedElementsAre("launch.nnodes = 2", "launch.processes_per_node = 4",
                                                     "launch.binding = numa", "rendezvous.main_port = 29502",
                                                     "launch.max_restarts = 3", "logging.dir = logs of it",
                                                     "logging.show = all", "launch.omp_num_threads = 4"));
  EXPECT_THAT(
      imported.left_out,
      UnorderedElementsAre(
          Pair("main_process_ip: 10.0.0.1", "--main_process_ip=$HEAD overrides it"),
          Pair("main_process_port: 29501", "--main_process_port=29502 overrides it"),
          Pair("num_processes: 16", "--num_processes=$((${NODES:-2} * GPUS)) overrides it"),
          Pair("--main_process_ip=$HEAD",
               "only a shell knows its value: launch with --set rendezvous.main_address=HOST"),
          Pair("--machine_rank=$SLURM_NODEID",
               "all nodes share one config, and their ranks follow the order in which they join: to choose "
               "this node's, launch with --set launch.node_rank=$SLURM_NODEID"),
          Pair("--rdzv_backend=c10d", "not needed, since all nodes join at rendezvous.main_address"),
          Pair("--mixed_precision=bf16",
               "the program chooses its precision itself (at::autocast); comm_hook = \"fp16\" or \"bf16\" "
               "halves gradient traffic"),
          Pair("--quiet",
               "not needed, since the launcher shows the failing rank's last output, and no stack trace of "
               "its own"),
          Pair(">out.log", "the ranks' output is in the run's folder, below logging.dir"),
          Pair("2>&1", HasSubstr("below logging.dir")),
          Pair("the '&' behind it",
               "the command below runs in the foreground: add '&' if your script is to continue meanwhile"),
          Pair("the #SBATCH lines",
               "submit the run with hookline submit --scheduler slurm, and pass each of sbatch's options "
               "with --scheduler-arg")));
  EXPECT_THAT(imported.remarks,
              ElementsAre("'$LR' is in the command below as the script has it: replace it with its value",
                          HasSubstr("line 9: ${NODES:-2} became its default, '2'")));
  EXPECT_THAT(imported.before, ElementsAre("srun", "--ntasks-per-node=1"));
  EXPECT_THAT(imported.environment, ElementsAre(Pair("NCCL_DEBUG", "INFO")));
  EXPECT_THAT(imported.program, ElementsAre("train.py", "--text", "a b", "--lr", "$LR"));
}

TEST(Import, NamesTheConfigThatAccelerateWouldReadByItself) {
  ASSERT_EQ(kNoAccelerateHere, 0);
  const testing::TemporaryFolder home;
  const std::string file = home.write("accelerate/default_config.yaml", "distributed_type: FSDP\n").string();
  setenv("HF_HOME", home.path().c_str(), 1);
  EXPECT_THAT(import_any("accelerate launch x.py").left_out,
              ElementsAre(Pair(file,
                               "accelerate launch reads this file when the command names none: to import it "
                               "too, add --config_file=" +
                                   file + " to the script's command")));
  EXPECT_THAT(import_any("accelerate launch --cpu x.py").left_out, IsEmpty())
      << "with --cpu, Accelerate does not read it either";
  setenv("HF_HOME", "/nowhere", 1);
}

TEST(Import, KnowsEachWayToStartAccelerate) {
  for (const std::string start :
       {"accelerate launch", "/opt/bin/accelerate launch", "accelerate-launch",
        "python -m accelerate.commands.launch", "python3 -u -m accelerate.commands.launch"}) {
    const Imported imported =
        import_any("CUDA_VISIBLE_DEVICES=1,2 " + start +
                   " --num-processes=2 --cpu --num_cpu_threads_per_process 3 -m pkg.train -x\n");
    EXPECT_THAT(values(imported), UnorderedElementsAre("launch.device = cpu", "launch.processes_per_node = 2",
                                                       "launch.omp_num_threads = 3"))
        << start;
    EXPECT_THAT(imported.left_out, IsEmpty()) << start;
    EXPECT_THAT(imported.before, IsEmpty()) << start;
    EXPECT_THAT(imported.environment, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "1,2")));
    EXPECT_THAT(imported.program, ElementsAre("python3", "-m", "pkg.train", "-x"));
  }
  EXPECT_THAT(
      import_any("ARGS='--cpu --num_processes 2'\naccelerate launch $ARGS --no_python ./train").program,
      ElementsAre("./train"));
}

TEST(Import, KnowsALauncherHoweverTheScriptSpellsIt) {
  for (const char* start :
       {"accelerate  launch", "accelerate\tlaunch", "accelerate \"launch\"", "A=accelerate; $A launch",
        "accelerate \\\n launch", "acc'elerate' launch", "A=accelerate\n\"$A\"-launch",
        "srun 'accelerate' launch", "accelerate \\\r\n launch"}) {
    const Imported imported = import_any(std::string(start) + " --num_processes 2 x.py\n");
    EXPECT_EQ(imported.kind, "a command line of accelerate launch") << start;
    EXPECT_THAT(values(imported), ElementsAre("launch.processes_per_node = 2")) << start;
  }
  for (const char* start : {"torch\"run\"", "torch\\\nrun", "T=torch; ${T}run",
                            "M=torch; python -m $M.distributed.run", "python -m torch.'distributed'.run"})
    EXPECT_EQ(import_any(std::string(start) + " --nproc_per_node 2 x.py\n").kind,
              "a command line of torchrun")
        << start;
  EXPECT_EQ(import_any("#!/bin/sh\ncat > c.yaml <<END\nnum_processes: 2\nEND\naccelerate launch x.py\n").kind,
            "a command line of accelerate launch")
      << "a script may write a config";
  EXPECT_EQ(problem("#!/bin/sh\nA=accelerate; $A launch 'x.py\n"),
            "line 2: a quotation mark ' is not closed");
  EXPECT_EQ(import_any("torch slots=2 # don't\n").kind, "a hostfile");
}

TEST(Import, TakesShardingFromFlagsOfAccelerateLaunch) {
  const Imported fsdp = import_any(
      "accelerate launch --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP --fsdp_offload_params true "
      "--fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP --dynamo_backend inductor --monitor_interval 5 --role "
      "w x.py");
  EXPECT_THAT(values(fsdp), ElementsAre("fsdp.sharding_strategy = shard_grad_op"));
  EXPECT_THAT(
      fsdp.left_out,
      UnorderedElementsAre(
          Pair("--fsdp_offload_params=true", "parameters always stay on the device"),
          Pair("--fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP", HasSubstr("FsdpUnit<Block>")),
          Pair("--dynamo_backend=inductor", "TorchDynamo does not compile C++ programs"),
          Pair("--monitor_interval=5", "not needed, since the launcher notices at once when a rank exits"),
          Pair("--role=w", "all ranks have the same role")));
  const Imported deepspeed = import_any(
      "accelerate launch --use_deepspeed --zero_stage 3 --gradient_accumulation_steps 4 --gradient_clipping "
      "1.0 x.py");
  EXPECT_THAT(values(deepspeed), UnorderedElementsAre("fsdp.sharding_strategy = full_shard",
                                                      "training.gradient_accumulation_steps = 4"));
  EXPECT_THAT(values(import_any("accelerate launch --use_deepspeed --zero_stage 1 x.py")),
              ElementsAre("ddp.shard_optimizer = true"));
  EXPECT_THAT(deepspeed.left_out,
              ElementsAre(Pair("--gradient_clipping=1.0",
                               "the program clips gradients itself: accelerator.clip_grad_norm")));
  EXPECT_THAT(
      import_any("accelerate launch --multi_gpu --fsdp_version 2 x.py").left_out,
      UnorderedElementsAre(
          Pair("--multi_gpu",
               "not needed, since launch.device = \"auto\" gives each rank a GPU if the host has any"),
          Pair("--fsdp_version=2", HasSubstr("unless distributed_type is FSDP"))));
}

TEST(Import, KnowsEachBooleanOfAcceleratesVariables) {
  for (const char* word : {"1", "true", "TRUE", "yes", "On", "y", "T"})
    EXPECT_THAT(values(import_any(std::string("ACCELERATE_USE_CPU=") + word + " ACCELERATE_DEBUG_MODE=" +
                                  word + " ACCELERATE_CPU_AFFINITY=" + word + " accelerate launch x.py")),
                UnorderedElementsAre("launch.device = cpu", "logging.level = debug", "launch.binding = numa"))
        << word;
  EXPECT_THAT(import_any("ACCELERATE_USE_CPU=Off accelerate launch x.py").left_out, IsEmpty());
  EXPECT_THAT(import_any("ACCELERATE_USE_CPU=2 accelerate launch x.py").left_out,
              ElementsAre(Pair("ACCELERATE_USE_CPU=2", "is neither true nor false: write one of the two")));
}

TEST(Import, ConvertsTorchrunsOutputFlags) {
  const auto shown = [](const std::string& flags) {
    return values(import_any("torchrun " + flags + " x.py"));
  };
  EXPECT_THAT(shown("--redirects 3"), ElementsAre("logging.show = none"));
  EXPECT_THAT(shown("-r 1"), ElementsAre("logging.show = stderr"));
  EXPECT_THAT(shown("-r3 -t1"), ElementsAre("logging.show = stdout"));
  EXPECT_THAT(shown("--local-ranks-filter 0,1"), ElementsAre("logging.show_ranks = 0,1"));
  EXPECT_THAT(shown("--nproc_per 2 --numa-binding=exclusive"),
              ElementsAre("launch.processes_per_node = 2", "launch.binding = core"));
  EXPECT_THAT(shown("--rdzv-conf keep_alive_interval=10,keep_alive_max_attempt=6"),
              ElementsAre("rendezvous.node_timeout_seconds = 60"));
  const Imported variables =
      import_any("export PET_NNODES=2 PET_MAX_RESTARTS=1\nWORLD_SIZE=4 torchrun --nnodes 3 x.py | tee log\n");
  EXPECT_THAT(values(variables), UnorderedElementsAre("launch.nnodes = 3", "launch.max_restarts = 1"));
  EXPECT_THAT(variables.left_out,
              UnorderedElementsAre(Pair("PET_NNODES=2", "--nnodes=3 overrides it"),
                                   Pair("WORLD_SIZE=4", "hookline sets it for each rank"),
                                   Pair("the pipe behind it", HasSubstr("below logging.dir"))));
  const Imported megatron = import_any(
      "GPUS=8\nDISTRIBUTED_ARGS=(\n  --nproc_per_node $GPUS  # all\n  --node_rank $RANK\n)\n"
      "torchrun ${DISTRIBUTED_ARGS[@]} $MORE x.py ${MODEL_ARGS[@]}");
  EXPECT_THAT(values(megatron), ElementsAre("launch.processes_per_node = 8"));
  EXPECT_THAT(
      megatron.left_out,
      Contains(
          Pair("$MORE",
               "only a shell knows which flags it holds: write them into the script, and import it again")));
}

TEST(Import, NamesNoKeyForAFlagThatItDoesNotKnow) {
  EXPECT_THAT(import_any("torchrun --mystery=$X x.py").left_out,
              ElementsAre(Pair("--mystery=$X", "hookline does not know this flag of torchrun")));
}

TEST(Import, AcceptsWindowsLineEnds) {
  const Imported script =
      import_any("torchrun --nproc-per-node 2 \\\r\n  --max-restarts 3 \\\r\n  ./train --x 1\r\n");
  EXPECT_THAT(values(script), ElementsAre("launch.processes_per_node = 2", "launch.max_restarts = 3"));
  EXPECT_THAT(script.program, ElementsAre("./train", "--x", "1"));
  EXPECT_THAT(values(import_any("a slots=2\r\nb slots=2\r\n")), Contains("rendezvous.main_address = a"));
}

TEST(ShellScript, DropsSubstitutionsThatHoldOnlyAComment) {
  EXPECT_THAT(commands("c `# first` \\\n  a `#` \\\n  `date # now` b"),
              ElementsAre("[c][a][`date # now`?][b]"));
  EXPECT_THAT(commands("c \"`# in it`\" `echo \\`date\\``"), ElementsAre("[c][][`echo \\`date\\``?]"));
}

TEST(Import, ReportsABlankAfterALineContinuation) {
  const Imported imported = import_any("torchrun --nproc-per-node 2 \\ \n  --max_restarts=0 ./train\n");
  EXPECT_THAT(imported.program, IsEmpty());
  EXPECT_THAT(imported.left_out,
              ElementsAre(Pair("what follows line 1",
                               "a blank follows the backslash that ends that line, so the command ends "
                               "there: remove the blank, and import the script again")));
  EXPECT_THAT(import_any("torchrun a\\ b c").program, ElementsAre("a b", "c"));
}

TEST(Import, LeavesShellExpansionsToTheShell) {
  const Imported imported =
      import_any("torchrun -m pkg *.txt ~/x {1..3} 'a b'*.csv '*' a[1] '{a,b}' \"~\" {} a~b\n");
  EXPECT_THAT(imported.expanded, UnorderedElementsAre(Pair(3, "*.txt"), Pair(4, "~/x"), Pair(5, "{1..3}"),
                                                      Pair(6, "a\\ b*.csv"), Pair(8, "a[1]")));
}

TEST(Import, StripsBracketsFromIPv6Addresses) {
  for (const char* flag : {"--rdzv-endpoint [::1]:29500", "--master-addr [::1] --master-port 29500"})
    EXPECT_THAT(
        values(import_any(std::string("torchrun --nnodes 2 ") + flag + " x.py")),
        ElementsAre("launch.nnodes = 2", "rendezvous.main_address = ::1", "rendezvous.main_port = 29500"))
        << flag;
  for (const char* address : {"[::1]", "::1"})
    EXPECT_THAT(values(import_any(std::string("torchrun --nnodes 2 --rdzv-endpoint ") + address + " x.py")),
                ElementsAre("launch.nnodes = 2", "rendezvous.main_address = ::1"));
  EXPECT_THAT(values(import_any("accelerate launch --num_machines 2 --main_process_ip [fe80::2] x.py")),
              Contains("rendezvous.main_address = fe80::2"));
}

TEST(Import, SaysWhichTimeoutWins) {
  for (const char* conf : {"timeout=900,join_timeout=60", "join_timeout=60,timeout=900"}) {
    const Imported imported = import_any(std::string("torchrun --rdzv-conf ") + conf + " x.py");
    EXPECT_THAT(values(imported), ElementsAre("launch.join_timeout_seconds = 60")) << conf;
    EXPECT_THAT(imported.left_out,
                ElementsAre(Pair("--rdzv-conf timeout=900",
                                 "join_timeout sets the same limit and takes precedence")));
  }
  const Imported others = import_any("torchrun --rdzv-conf timeout=90,read_timeout=5,close_timeout=6 x.py");
  EXPECT_THAT(values(others), ElementsAre("launch.join_timeout_seconds = 90"));
  EXPECT_THAT(others.left_out, ElementsAre(Pair("--rdzv-conf read_timeout=5", HasSubstr("single requests")),
                                           Pair("--rdzv-conf close_timeout=6", HasSubstr("takes to close"))));
}

TEST(Import, StartsOneLauncherPerNode) {
  for (const char* flag : {"--ntasks-per-node=8", "--ntasks-per-node 8"}) {
    const Imported imported =
        import_any(std::string("srun ") + flag + " --label torchrun --nnodes 32 ./train");
    std::string words;
    for (const std::string& word : imported.before) words += word + " ";
    EXPECT_THAT(words, ::testing::MatchesRegex("srun --ntasks-per-node.1 --label "));
    EXPECT_THAT(imported.left_out, ElementsAre(Pair("--ntasks-per-node=8",
                                                    "one hookline launch per node starts all of the node's "
                                                    "ranks: the command below has --ntasks-per-node=1")));
  }
}

TEST(Import, DoesNotAssumeOneHostIfTheirNumberIsUnknown) {
  const Imported imported = import_any(
      "accelerate launch --num_machines $SLURM_NNODES --num_processes 8 --machine_rank 1 --main_process_ip h "
      "--main_process_port 29502 ./train");
  EXPECT_THAT(values(imported), ElementsAre("rendezvous.main_address = h", "rendezvous.main_port = 29502"));
  EXPECT_THAT(
      imported.left_out,
      UnorderedElementsAre(
          Pair("--num_machines=$SLURM_NNODES", HasSubstr("launch with --set launch.nnodes=N")),
          Pair("--machine_rank=1", HasSubstr("the order in which they join")),
          Pair("--num_processes=8", HasSubstr("it counts the ranks of all hosts, and only a shell knows"))));
}

TEST(Import, ReportsTheCommandsAroundTheLaunch) {
  const Imported imported = import_any(
      "source env.sh\ncd \"/data\"\nfor s in 1 2; do\n  torchrun --nproc-per-node $N ./train $s <<EOF\nx\n"
      "EOF\ndone\ncd /later\n");
  const char* const kBefore = "the command below does not include it: run it first, in the same shell";
  EXPECT_THAT(imported.left_out,
              UnorderedElementsAre(
                  Pair("source env.sh", kBefore), Pair("cd /data", kBefore),
                  Pair("the 'for' around it", "the command below runs once, outside of it"),
                  Pair("--nproc-per-node=$N", HasSubstr("launch with --set launch.processes_per_node=N")),
                  Pair("<<EOF", "ranks' standard input is /dev/null")));
  EXPECT_THAT(import_any("while true; do :; done\ntorchrun ./train").left_out, IsEmpty());
  EXPECT_THAT(
      import_any("torchrun --nproc-per-node 4").remarks,
      ElementsAre(
          "the script's command names no program: add yours at the end of your hookline launch command"));
}

TEST(Import, SaysThatTheCommandRanInTheBackground) {
  const auto kBackground = Pair("the '&' behind it", HasSubstr("runs in the foreground"));
  for (const char* script :
       {"torchrun ./train &\nwait", "torchrun ./train && echo done &", "(torchrun ./train) &",
        "{\n  torchrun ./train\n} &", "(cd x; (torchrun ./train)) & wait"})
    EXPECT_THAT(import_any(script).left_out, Contains(kBackground)) << script;
  for (const char* script :
       {"torchrun ./train", "sleep 1 & torchrun ./train", "(sleep 1) & torchrun ./train"})
    EXPECT_THAT(import_any(script).left_out, IsEmpty()) << script;
  const auto kOutput = HasSubstr("below logging.dir");
  EXPECT_THAT(import_any("(torchrun ./train) > log 2>&1").left_out,
              ElementsAre(Pair(">log", kOutput), Pair("2>&1", kOutput)));
  EXPECT_THAT(import_any("{ torchrun ./train; } 2> log | tee x").left_out,
              ElementsAre(Pair("2>log", kOutput), Pair("the pipe behind it", kOutput)));
}

TEST(Import, FindsLaunchesWrappedInOtherCommands) {
  for (const char* start :
       {"conda run -n e", "mamba run -p /x", "micromamba run -n e", "poetry run", "pixi run", "uv run",
        "conda -v run -n e --no-capture-output", "command", "srun conda run -n e"}) {
    const Imported imported = import_any(std::string(start) + " torchrun --nproc_per_node=8 train.py\n");
    EXPECT_THAT(values(imported), ElementsAre("launch.processes_per_node = 8")) << start;
    std::string words;
    for (const std::string& word : imported.before) words += (words.empty() ? "" : " ") + word;
    EXPECT_EQ(words, start);
  }
  for (const char* start : {"python $(which torchrun)", "$(command -v torchrun)", "`which torchrun`",
                            "python -u bin/torchrun", "$(which python) -u -m torch.distributed.run"}) {
    const Imported imported = import_any(std::string(start) + " --nproc_per_node=8 train.py\n");
    EXPECT_THAT(values(imported), ElementsAre("launch.processes_per_node = 8")) << start;
    EXPECT_THAT(imported.before, IsEmpty()) << start;
  }
  EXPECT_THAT(
      problem("conda run -n e torchrun --nproc_per_node=8 train.py\ntorchrun --nproc_per_node=2 eval.py\n"),
      StartsWith("lines 1 and 2 each start a program"));
  for (const char* mention : {"conda install torchrun", "poetry add accelerate launch", "command -v torchrun",
                              "[ -x /bin/torchrun ] && x", "K=$(pidof torchrun)", "bash -c 'echo torchrun'",
                              "echo bash -c 'torchrun x'", "bash run.sh", "X=$(which torchrun)",
                              "case $1 in\n  torchrun) x;;\nesac", "log 'torchrun starts'"})
    EXPECT_EQ(problem(std::string(mention) + "\ntorchrun t.py"), "none") << mention;
}

TEST(Import, RefusesALaunchInsideAStringOrSubstitution) {
  const auto of = [](const std::string& program) {
    return ": " + program +
           " runs text as a command, and an import runs nothing: write the command itself in its place";
  };
  EXPECT_EQ(problem("a\nbash -c \"torchrun t.py\"\n"), "line 2" + of("bash"));
  EXPECT_EQ(problem("srun /bin/sh -lc 'cd x && accelerate launch t.py'\ntorchrun u.py\n"),
            "line 1" + of("sh"));
  EXPECT_EQ(problem("conda run -n e bash -c 'torchrun t.py'\n"), "line 1" + of("bash"));
  EXPECT_EQ(problem("C='torchrun t.py'; bash -c \"$C\"\n"), "line 1" + of("bash"));
  EXPECT_EQ(problem("bash -c torchrun\n"), "line 1" + of("bash"));
  EXPECT_EQ(problem("ssh a 'torchrun t.py' &\ntorchrun t.py\n"), "line 1" + of("ssh"));
  EXPECT_EQ(problem("sbatch --wrap='torchrun t.py'\n"), "line 1" + of("sbatch"));
  EXPECT_EQ(problem("ssh a <<END\ntorchrun t.py\nEND\n"), "line 1" + of("ssh"));
  EXPECT_EQ(problem("cat <<END | bash\ntorchrun t.py\nEND\n"), "line 1" + of("bash"));
  EXPECT_EQ(problem("bash -c \"bash -c 'torchrun t.py'\"\n"), "line 1" + of("bash"));
  for (const char* script :
       {"$(torchrun t.py)", "A=$(torchrun t.py)", "torchrun u.py\necho \"`torchrun t.py`\"",
        "diff <(torchrun t.py) x", "A=$(echo $(accelerate launch t.py))", "export A=\"$(torchrun t.py)\""})
    EXPECT_THAT(problem(script), ::testing::EndsWith(": a launcher runs inside $(...), which a config can't "
                                                     "replace: write its command on a line of its own"))
        << script;
  std::string nested;
  for (int i = 0; i < 50'000; ++i) nested += "$(";
  EXPECT_THAT(problem(nested + "torchrun" + std::string(50'000, ')')), HasSubstr("inside $(...)"));
}

TEST(Import, OpensRegularFilesOnly) {
  const testing::TemporaryFolder folder;
  const std::string script = (folder.path() / "run.sh").string();
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  folder.write("empty", "");
  EXPECT_THAT(problem("accelerate launch --config_file pipe x.py", script),
              StartsWith("--config_file=pipe: '" + (folder.path() / "pipe").string() +
                         "' can't be read: it is a named pipe"));
  EXPECT_EQ(problem("accelerate launch --config_file empty x.py", script),
            "--config_file=empty: '" + (folder.path() / "empty").string() + "' is empty");
  if (geteuid() == 0) return;  // root reads everything
  const std::filesystem::path locked = folder.write("locked/a.yaml", "num_processes: 1\n").parent_path();
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  EXPECT_THAT(
      problem("accelerate launch --config_file locked/a.yaml x.py", script),
      StartsWith("--config_file=locked/a.yaml: '" + (locked / "a.yaml").string() +
                 "' can't be reached: this user may not enter the folder '" + locked.string() + "'\n"));
  std::filesystem::permissions(locked, std::filesystem::perms::owner_all);
}

TEST(Import, SaysWhatIsWrongWithAScript) {
  EXPECT_EQ(
      problem("torchrun a.py; torchrun b.py\n"),
      "line 1 starts two programs, and a config is for one: put the one to import into a file of its own");
  EXPECT_EQ(problem("CMD='torchrun ./train'\neval $CMD\n"),
            "line 2: eval runs text as a command, and an import runs nothing: write the command itself in "
            "its place");
  EXPECT_EQ(problem("a\ntorchrun a.py\nif x; then accelerate launch b.py; fi\n"),
            "lines 2 and 3 each start a program, and a config is for one: put the one to import into a file "
            "of its own");
  EXPECT_EQ(problem("echo torchrun\npip install torchrun\n"),
            "it has no command line of torchrun or accelerate launch");
  EXPECT_EQ(problem("accelerate launch --num_processes"), "--num_processes has no value");
  EXPECT_EQ(problem("accelerate launch --cpu=yes x.py"), "--cpu takes no value");
  EXPECT_EQ(problem("accelerate launch --num_processes many x.py"),
            "--num_processes: must be an integer, not 'many'");
  EXPECT_EQ(problem("accelerate launch --num_processes 0 x.py"), "--num_processes: must be at least 1");
  EXPECT_EQ(problem("accelerate launch --cpu --use_fsdp x.py"),
            "--cpu and --use_fsdp don't go together: accelerate launch takes one of them");
  EXPECT_EQ(problem("accelerate launch -m --no_python x.py"),
            "--module and --no_python can't be used together");
  EXPECT_EQ(problem("accelerate launch --config_file none.yaml x.py"),
            "--config_file=none.yaml names a file that is neither in this folder nor in the script's: run "
            "this in the folder of that file, or remove the flag from the script");
  EXPECT_EQ(problem("accelerate launch --config_file $C x.py"),
            "--config_file=$C names a file by what only a shell knows: write the file's name into the "
            "script, or import the file separately");
  EXPECT_EQ(problem("accelerate launch --config_file hostfile x.py", IMPORTS "/x.sh"),
            "in '" IMPORTS "/hostfile', it is not a config of Accelerate's, which maps keys to values");
  EXPECT_EQ(problem("torchrun $(x"), "line 1: a ( is not closed");
  EXPECT_EQ(problem("A=(torchrun"), "line 1: the array's ( is not closed");
}

}  // namespace
}  // namespace hookline
