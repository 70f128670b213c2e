// `hookline config`: through pipes, and on a real pseudo-terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "cli/run_hookline.h"
#include "support/terminal.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;
using testing::Terminal;
namespace keys = testing::keys;

ProcessResult answer(const Sandbox& sandbox, const std::string& lines, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), "config");
  ProcessOptions options = sandbox.options(std::move(flags));
  options.input = lines;
  return testing::run_process(HOOKLINE_BINARY, options);
}

const std::string kFp16File =
    "# A config of hookline; all other keys have their defaults: hookline config default\n"
    "schema_version = 2\n\n[launch]\n# Ranks on each host; auto: one per GPU, or one if there is none or "
    "device "
    "is cpu.\nprocesses_per_node = "
    "2\n\n[ddp]\n# The communication hook that averages gradients: a name from `hookline hooks list`, or "
    "auto (see [ddp.auto]).\ncomm_hook = "
    "\"fp16\"\n";

TEST(Wizard, TakesItsAnswersFromAPipe) {
  const Sandbox sandbox;
  const ProcessResult result = answer(sandbox, "1\n2\nfp16\ndone\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
  EXPECT_EQ(sandbox.run({"config", "validate", "hookline.toml"}).exit_code, 0);
  // The transcript without its first line, which depends on the machine; docs/guides/config.md shows it.
  EXPECT_THAT(testing::read_file(CONFIG_GUIDE), HasSubstr(result.out.substr(result.out.find('\n') + 1)));
  EXPECT_EQ(result.out.substr(result.out.find('\n') + 1),
            R"(
1. How many machines? A range such as "2:4" takes as many as join.
   Number of nodes; "2:4": from 2 to 4; "4+1": 4, and a spare that takes the place of a lost one.
   (launch.nnodes: a string, or an integer)
   [1] > 1

2. How many ranks on each machine?
   Ranks on each host; auto: one per GPU, or one if there is none or device is cpu.
   (launch.processes_per_node: an integer from 1 to 4096, or "auto", in processes)
   [auto] > 2

3. Which communication hook should average gradients?
   The communication hook that averages gradients: a name from `hookline hooks list`, or auto (see [ddp.auto]).
   (ddp.comm_hook: a hook's name; bytes are those of a model of 10 million parameters)
   1) no                 No hook: DDP's own all-reduce. 40 MB a step.
   2) allreduce          Divides by the number of ranks, then sums. 40 MB a step.
   3) fp16               Averages gradients in float16: half the bytes. 20 MB a step.
   4) bf16               Averages gradients in bfloat16: half the bytes, float32's range. 20 MB a step.
   5) power_sgd          Sends two thin factors of each gradient matrix instead of the matrix. 117 kB a step.
   6) batched_power_sgd  PowerSGD of each bucket as one square matrix: faster, coarser. 25.3 kB a step.
   7) noop               Sends nothing: each rank keeps its own gradients, and the ranks drift apart. 0 B a step.
   8) auto               Chosen while the run trains, by measurements: see [ddp.auto].
   [no] > fp16

4. Everything else keeps its default. Change settings of a table?
   (more: a table's name, or done)
   1) done      Write the file.
   2) launch    omp_num_threads, grace_period_seconds, binding and 6 more
   3) ddp       broadcast_buffers, bucket_cap_mb, find_unused_parameters and 4 more
   4) training  max_steps, gradient_accumulation_steps, seed and 4 more
   5) logging   level, dir, status and 5 more
   [done] > done

--- hookline.toml
)" + kFp16File +
                R"(---
in a step, each rank sends 20 MB, and without a hook 40 MB (for 10 million parameters)
run it: hookline launch ./train
)");
}

TEST(Wizard, TakesNumbersAndDefaultsAndGoesBack) {
  const Sandbox sandbox;
  const ProcessResult result =
      answer(sandbox, "\n4\n<\n2\n3\n\n", {"--output", "run.toml", "--parameters", "1000"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(sandbox.read("run.toml"), kFp16File);
  EXPECT_THAT(result.out, AllOf(HasSubstr(" 2 kB a step"),
                                HasSubstr("run it: hookline launch --config run.toml ./train\n")));
}

TEST(Wizard, TakesItsAnswersFromAFile) {
  const Sandbox sandbox;
  sandbox.folder.write("answers", "1\r\n2\r\nfp16\r\n\r\n");
  EXPECT_EQ(answer(sandbox, "", {"--answers", "answers"}).exit_code, 0);
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
  const ProcessResult missing = answer(sandbox, "", {"--answers", "none", "--force"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(
      missing.err,
      "hookline: error: 'none' can't be read: No such file or directory\n  see: hookline config --help\n");
}

TEST(Wizard, WritesNothingIfAnswersAreMissingOrWrong) {
  const Sandbox sandbox;
  const ProcessResult missing = answer(sandbox, "1\n2\n");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.err,
            "hookline: error: the answers end before question 3, ddp.comm_hook: nothing was written; give "
            "--yes to take "
            "the defaults of all that is left\n");
  const ProcessResult wrong = answer(sandbox, "1\ntwo\nfp16\ndone\n");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err,
            "hookline: error: 'two' is not an answer to question 2, launch.processes_per_node: bad value "
            "\"two\" for "
            "'processes_per_node' in [launch]: must be an integer from 1 to 4096, or \"auto\"\n");
  EXPECT_FALSE(sandbox.has("hookline.toml"));
  EXPECT_EQ(answer(sandbox, "1\n2\nfp16\n", {"--yes"}).exit_code, 0);
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
}

TEST(Wizard, NeverReplacesAFileUnasked) {
  const Sandbox sandbox;
  sandbox.folder.write("hookline.toml", "mine");
  const ProcessResult refused = answer(sandbox, "1\n2\nfp16\ndone\n", {"--yes"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "hookline: error: 'hookline.toml' is there already: name another file with --output, or give "
            "--force to "
            "replace it\n");
  EXPECT_EQ(sandbox.read("hookline.toml"), "mine");
  EXPECT_EQ(answer(sandbox, "1\n2\nfp16\ndone\n", {"--force"}).exit_code, 0);
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
}

TEST(Wizard, AsksNothingIfItCouldNotWriteTheFile) {
  const Sandbox sandbox;
  const ProcessResult nowhere = answer(sandbox, "1\n2\nfp16\ndone\n", {"--yes", "--output", "runs/a.toml"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_EQ(nowhere.err,
            "hookline: error: 'runs/a.toml' can't be written: there is no folder 'runs'; choose "
            "another file with --output FILE\n");
  EXPECT_EQ(nowhere.out, "");
  std::filesystem::create_directory(sandbox.folder.path() / "runs");
  const ProcessResult folder = answer(sandbox, "1\n2\nfp16\ndone\n", {"--yes", "--output", "runs"});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_EQ(
      folder.err,
      "hookline: error: 'runs' can't be written: it is a folder; choose another file with --output FILE\n");
}

/// Options for running the wizard with TERM set to `terminal`.
ProcessOptions on(const std::string& terminal, const Sandbox& sandbox, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), "config");
  ProcessOptions options = sandbox.options(std::move(flags));
  options.environment["TERM"] = terminal;
  return options;
}

TEST(Wizard, IsNavigatedWithTerminalKeys) {
  const Sandbox sandbox;
  Terminal terminal(HOOKLINE_BINARY, on("xterm-256color", sandbox));
  ASSERT_TRUE(terminal.shows("1. How many machines?"));
  terminal.type("7" + keys::kErase + "1" + keys::kEnter);
  ASSERT_TRUE(terminal.shows("2. How many ranks on each machine?"));
  terminal.type("none" + keys::kEnter);
  ASSERT_TRUE(terminal.shows("   ! bad value \"none\" for 'processes_per_node'"));
  terminal.type("2" + keys::kEnter);
  ASSERT_TRUE(terminal.shows(" > 1) no "));
  terminal.type(keys::kDown + keys::kDown + keys::kDown + keys::kUp);
  ASSERT_TRUE(terminal.shows(" > 3) fp16 "));
  terminal.type(keys::kEnter);
  ASSERT_TRUE(terminal.shows("3. ddp.comm_hook: fp16"));
  ASSERT_TRUE(terminal.shows("4. Everything else keeps its default."));
  terminal.type(keys::kLeft);
  ASSERT_TRUE(terminal.shows("3. Which communication hook should average gradients?"));
  terminal.type("4" + keys::kEnter);
  ASSERT_TRUE(terminal.shows("3. ddp.comm_hook: bf16"));
  ASSERT_TRUE(terminal.shows("4. Everything else"));
  terminal.type(keys::kEscape);
  ASSERT_TRUE(terminal.shows("3. Which communication hook should average gradients?"));
  terminal.type(keys::kDown + keys::kDown + keys::kEnter);
  ASSERT_TRUE(terminal.shows("4. Everything else"));
  terminal.type(keys::kEnter);
  EXPECT_TRUE(terminal.shows("run it: hookline launch ./train"));
  EXPECT_EQ(terminal.exit_code(), 0);
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
}

TEST(Wizard, LeavesNodesAndAddressesToAScheduler) {
  const Sandbox sandbox;
  sandbox.folder.write("bin/sbatch", "#!/bin/sh\n");
  std::filesystem::permissions(sandbox.folder.path() / "bin/sbatch", std::filesystem::perms::owner_all);
  ProcessOptions options = sandbox.options({"config"});
  options.environment["PATH"] = (sandbox.folder.path() / "bin").string() + ":/usr/bin:/bin";
  options.environment["SLURM_CONF"] = "slurm.conf";
  options.input = "\n2\nfp16\ndone\n";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("1. Should a scheduler start the run?"), HasSubstr("[slurm] > "),
                                HasSubstr("run it: hookline submit --scheduler slurm --nodes 2 ./train"),
                                Not(HasSubstr("How many machines?")), Not(HasSubstr("main_address"))));
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
}

TEST(Wizard, HasColoursUnlessNoColorIsSet) {
  const Sandbox sandbox;
  for (const bool wanted : {true, false}) {
    ProcessOptions options = on("xterm", sandbox);
    if (!wanted) options.environment["NO_COLOR"] = "1";
    Terminal terminal(HOOKLINE_BINARY, options);
    ASSERT_TRUE(terminal.shows("1. How many machines?"));
    terminal.type(keys::kInterrupt);
    EXPECT_EQ(terminal.exit_code(), 130);
    EXPECT_EQ(terminal.screen().find("\x1b[1m1. How many") != std::string::npos, wanted);
  }
}

TEST(Wizard, WrapsTextToTheTerminalWidth) {
  const Sandbox sandbox;
  Terminal terminal(HOOKLINE_BINARY, on("xterm", sandbox));
  ASSERT_TRUE(terminal.shows("1. How many machines?"));
  terminal.type(keys::kEnter + keys::kEnter);
  ASSERT_TRUE(terminal.shows("`hookline hooks list`, or auto (see\r"));
  EXPECT_TRUE(terminal.shows("\n   [ddp.auto])."));
  terminal.type(keys::kInterrupt);
  EXPECT_EQ(terminal.exit_code(), 130);
}

TEST(Wizard, WrapsALongAnswerThatStaysOnTheScreen) {
  const Sandbox sandbox;
  Terminal terminal(HOOKLINE_BINARY, on("xterm", sandbox));
  ASSERT_TRUE(terminal.shows("1. How many machines?"));
  std::string first_row = "1. launch.nnodes:";
  for (int i = 0; i < 16; ++i) first_row += " four";
  terminal.type(first_row.substr(first_row.find(' ', 3) + 1) + " and the end of it" + keys::kEnter);
  EXPECT_TRUE(terminal.shows(first_row + "\r"));
  EXPECT_TRUE(terminal.shows("\n   and the end of it\r"));
  EXPECT_TRUE(terminal.shows("   ! bad value"));
  terminal.type(keys::kInterrupt);
  EXPECT_EQ(terminal.exit_code(), 130);
}

TEST(Wizard, WritesNothingAfterCtrlC) {
  const Sandbox sandbox;
  for (const std::string terminal_name : {"xterm", "dumb"}) {
    Terminal terminal(HOOKLINE_BINARY, on(terminal_name, sandbox));
    ASSERT_TRUE(terminal.shows("1. How many machines?"));
    ASSERT_TRUE(terminal.shows("[1] > "));
    terminal.type(keys::kInterrupt);
    EXPECT_EQ(terminal.exit_code(), 128 + SIGINT);
    EXPECT_FALSE(sandbox.has("hookline.toml"));
  }
}

TEST(Wizard, AsksLineByLineOnADumbTerminal) {
  const Sandbox sandbox;
  Terminal terminal(HOOKLINE_BINARY, on("dumb", sandbox));
  ASSERT_TRUE(terminal.shows("[1] > "));
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("[auto] > "));
  terminal.type("two\r");
  ASSERT_TRUE(terminal.shows("   ! bad value \"two\""));
  terminal.type("2\r");
  ASSERT_TRUE(terminal.shows("[no] > "));
  terminal.type("fp16\r");
  ASSERT_TRUE(terminal.shows("[done] > "));
  terminal.type("\r");
  EXPECT_EQ(terminal.exit_code(), 0);
  EXPECT_EQ(sandbox.read("hookline.toml"), kFp16File);
  EXPECT_THAT(terminal.screen(), Not(HasSubstr("\x1b")));
}

TEST(Wizard, AsksBeforeItReplacesAFile) {
  const Sandbox sandbox;
  sandbox.folder.write("hookline.toml", "mine");
  {
    Terminal terminal(HOOKLINE_BINARY, on("xterm", sandbox));
    ASSERT_TRUE(terminal.shows("'hookline.toml' is there already. Replace it at the end? [no] > "));
    terminal.type("\r");
    EXPECT_EQ(terminal.exit_code(), 2);
    EXPECT_EQ(sandbox.read("hookline.toml"), "mine");
  }
  Terminal terminal(HOOKLINE_BINARY, on("xterm", sandbox, {"--yes"}));
  ASSERT_TRUE(terminal.shows("[no] > "));
  terminal.type("yes\r");
  ASSERT_TRUE(terminal.shows("1. How many machines?"));
  terminal.type(keys::kEnd);  // end of input: defaults for the rest
  EXPECT_EQ(terminal.exit_code(), 0);
  EXPECT_THAT(sandbox.read("hookline.toml"), StartsWith("# A config of hookline;"));
}

}  // namespace
}  // namespace hookline
