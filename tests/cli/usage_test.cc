// Responses to correct and incorrect command lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;

void expect_error(const std::vector<std::string>& arguments, const std::string& message, int code = 2) {
  const Sandbox sandbox;
  const ProcessResult result = sandbox.run(arguments);
  EXPECT_EQ(result.err, message);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.exit_code, code);
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Usage, PrintsTheVersion) {
  const ProcessResult result = Sandbox().run({"--version"});
  EXPECT_EQ(result.out, "hookline " HOOKLINE_VERSION "\n");
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Usage, SaysThatABuildTreeHasNoCmakePackage) {
  const std::filesystem::path folder =
      (std::filesystem::path(HOOKLINE_BINARY).parent_path().parent_path() / "lib/cmake/hookline");
  expect_error(
      {"--cmake-dir"},
      "hookline: error: '" + folder.string() +
          "' has no hooklineConfig.cmake: this is the launcher alone, or a build that is not "
          "installed\n"
          "  install hookline's C++ library for your torch: the Python package hookline-torch in the "
          "same environment if hookline came by pip, else the Debian package, the .tar.gz, or a "
          "checkout with cmake --install\n",
      1);
}

TEST(Usage, PrintsHelpAtEachLevelWithAnExample) {
  const Sandbox sandbox;
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"--help"}, "hookline launch --config run.toml ./train --epochs 5\n"},
      {{"hooks", "--help"}, "hookline hooks describe power_sgd\n"},
      {{"config", "-h"}, "hookline config show run.toml\n"},
      {{"launch", "--help"}, "hookline launch --config run.toml --processes-per-node 2 ./train --epochs 5\n"},
      {{"hooks", "list", "--help"}, "hookline hooks list --program ./train\n"},
      {{"hooks", "describe", "-h"}, "hookline hooks describe power_sgd\n"},
      {{"config", "validate", "--help"}, "hookline config validate run.toml\n"},
      {{"config", "show", "--help"}, "hookline config show run.toml --set ddp.comm_hook=fp16\n"},
      {{"submit", "--help"},
       "hookline submit --scheduler slurm --nodes 2 --config run.toml --print ./train\n"},
      {{"config", "default", "--help"}, "hookline config default --output hookline.toml\n"},
      {{"config", "get", "--help"}, "hookline config get run.toml ddp.comm_hook\n"},
      {{"config", "set", "--help"}, "hookline config set run.toml ddp.comm_hook fp16\n"},
      {{"config", "diff", "--help"}, "hookline config diff base.toml run.toml\n"},
      {{"config", "update", "--help"}, "hookline config update run.toml --dry-run\n"},
      {{"config", "import", "--help"},
       "hookline config import ~/.cache/huggingface/accelerate/default_config.yaml --output run.toml\n"},
      {{"config", "where", "--help"}, "hookline config where\n"},
      {{"config", "schema", "--help"}, "hookline config schema > hookline.schema.json\n"},
      {{"test", "--help"}, "hookline test --processes-per-node 2\n"},
      {{"env", "--help"}, "hookline env --json\n"},
      {{"estimate", "--help"}, "hookline estimate --parameters 125000000 --ranks 4 --link 1gbit\n"},
      {{"new", "--help"}, "hookline new my-training\n"},
      {{"completion", "--help"}, "source <(hookline completion bash)\n"},
      {{"config", "--help"}, "hookline config show run.toml\n"},
      {{"checkpoint", "help"}, "hookline checkpoint inspect checkpoints\n"},
      {{"checkpoint", "inspect", "--help"}, "hookline checkpoint inspect checkpoints\n"},
      {{"checkpoint", "verify", "-h"}, "hookline checkpoint verify checkpoints/step_00000100\n"}};
  for (const auto& [arguments, example] : commands) {
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_THAT(result.out, HasSubstr("Usage: hookline "));
    EXPECT_THAT(result.out, HasSubstr("Example:\n  " + example));
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.exit_code, 0);
  }
}

TEST(Usage, ListsTheSubverbsInAVerbsHelp) {
  const Sandbox sandbox;
  const ProcessResult result = sandbox.run({"config", "--help"});
  EXPECT_THAT(result.out, AllOf(StartsWith("Write a config file by question and answer"), HasSubstr("--yes"),
                                HasSubstr("\nVerbs:\n"), HasSubstr("  config validate ")));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(sandbox.run({"help", "config", "set"}).out, sandbox.run({"config", "set", "--help"}).out);
  EXPECT_EQ(sandbox.run({"help", "config"}).out, result.out);
  EXPECT_EQ(sandbox.run({"help"}).out, sandbox.run({"--help"}).out);
  EXPECT_THAT(sandbox.run({"help", "tset"}).err, HasSubstr("unknown verb 'tset'; did you mean 'test'?"));
}

TEST(Usage, ListsEveryFlagOfLaunch) {
  EXPECT_EQ(
      Sandbox().run({"launch", "--help"}).out,
      R"(Run a program on several ranks, on this host and on others. Arguments after the program are passed to it unchanged.
Usage: hookline launch [flags] program [arguments]

Options:
  -h,--help                         Print this and exit
  --config FILE                     TOML file to read; else the one that 'hookline config where' names
  --profile NAME                    Let the values of [profile.NAME] override the file's other values
  --processes-per-node N            Ranks on this host, or auto: one per GPU, 1 on the CPU
  --comm-hook HOOK                  Gradient communication hook (see: hookline hooks list)
  --comm-wrapper WRAPPER            Precision that the hook communicates in: no, fp16, bf16
  --max-steps N                     Optimizer steps after which should_stop() is true
  --state-option KEY=VALUE ...      An option of the hook, such as matrix_approximation_rank=2; may be repeated
  --set KEY=VALUE ...               Any value of the config, such as logging.level=debug; may be repeated
  --dry-run                         Print what each rank would get, and start nothing

Example:
  hookline launch --config run.toml --processes-per-node 2 ./train --epochs 5
)");
}

TEST(Usage, ListsTheVerbsIfTheVerbIsMissing) {
  const Sandbox sandbox;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{}, {"hooks"}, {"checkpoint"}}) {
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("Verbs:\n"));
    EXPECT_EQ(result.exit_code, 2);
  }
}

TEST(Usage, ExplainsWhatAMissingArgumentWasTakenFor) {
  const Sandbox sandbox;
  sandbox.script("train", "");
  sandbox.folder.write("run.toml", "[ddp]\n");
  const auto error_of = [&](const std::vector<std::string>& arguments) { return sandbox.run(arguments).err; };
  EXPECT_EQ(error_of({"launch", "--processes-per-node", "./train"}),
            "hookline: error: the program to launch is missing: './train' was taken for the value of "
            "--processes-per-node\n  see: hookline launch --help\n");
  EXPECT_EQ(
      error_of({"launch", "--set", "ddp.comm_hook", "fp16", "./train"}),
      "hookline: error: --set needs KEY=VALUE, not 'ddp.comm_hook'; for example: --set ddp.comm_hook=fp16\n"
      "  see: hookline launch --help\n");
  EXPECT_EQ(error_of({"launch", "run.toml", "./train"}),
            "hookline: error: program 'run.toml' was not found in PATH; did you mean '--config run.toml'?\n");
}

TEST(Usage, NamesTheNearestVerb) {
  expect_error({"lunch", "./train"},
               "hookline: error: unknown verb 'lunch'; did you mean 'launch'?\n  see: hookline --help\n");
  expect_error(
      {"hooks", "lst"},
      "hookline: error: unknown verb 'hooks lst'; did you mean 'list'?\n  see: hookline hooks --help\n");
  expect_error({"config", "validat", "x"},
               "hookline: error: unknown verb 'config validat'; did you mean 'validate'?\n"
               "  see: hookline config --help\n");
  expect_error({"frobnicate"}, "hookline: error: unknown verb 'frobnicate'\n  see: hookline --help\n");
  expect_error(
      {"--versoin"},
      "hookline: error: unknown flag '--versoin'; did you mean '--version'?\n  see: hookline --help\n");
}

TEST(Usage, NamesTheNearestFlagBeforeTheProgram) {
  expect_error(
      {"launch", "--confg", "r.toml", "./train"},
      "hookline: error: unknown flag '--confg'; did you mean '--config'?\n  see: hookline launch --help\n");
  expect_error(
      {"hooks", "list", "--jsn"},
      "hookline: error: unknown flag '--jsn'; did you mean '--json'?\n  see: hookline hooks list --help\n");
}

TEST(Usage, SaysThatTheProgramIsMissing) {
  const std::string message =
      "hookline: error: the program to launch is missing; for example: hookline launch --config run.toml "
      "./train\n"
      "  see: hookline launch --help\n";
  expect_error({"launch"}, message);
  expect_error({"launch", "--comm-hook", "fp16"}, message);
  expect_error({"launch", "--"}, message);
}

TEST(Usage, RefusesExtraAndMissingArguments) {
  expect_error({"hooks", "list", "power_sgd"},
               "hookline: error: unexpected argument 'power_sgd'\n  see: hookline hooks list --help\n");
  expect_error({"hooks", "describe"},
               "hookline: error: a hook's name is missing\n  see: hookline hooks describe --help\n");
  expect_error({"config", "validate"},
               "hookline: error: a config file is missing\n  see: hookline config validate --help\n");
  expect_error({"config", "show", "a.toml", "b.toml"},
               "hookline: error: unexpected argument 'b.toml'\n  see: hookline config show --help\n");
}

TEST(Usage, RefusesAKeySetByTwoVariables) {
  const Sandbox sandbox;
  testing::ProcessOptions options = sandbox.options({"launch", "/bin/true"});
  options.environment["HOOKLINE_LAUNCH"] = "{processes_per_node = 2}";
  options.environment["HOOKLINE_LAUNCH__PROCESSES_PER_NODE"] = "3";
  const ProcessResult result = run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "HOOKLINE_LAUNCH__PROCESSES_PER_NODE: error: launch.processes_per_node is given twice: by "
            "HOOKLINE_LAUNCH and by HOOKLINE_LAUNCH__PROCESSES_PER_NODE\n  unset one of them\n");
  EXPECT_FALSE(sandbox.has("hookline-runs"));
}

TEST(Usage, RefusesAValueGivenTwice) {
  expect_error({"launch", "--comm-hook", "fp16", "--set", "ddp.comm_hook=bf16", "/bin/true"},
               "hookline: error: ddp.comm_hook is given twice: by --comm-hook and by --set ddp.comm_hook\n"
               "  see: hookline launch --help\n");
  expect_error({"launch", "--set", "a.b=1", "--set", "a.b=2", "/bin/true"},
               "hookline: error: a.b is given twice: by --set a.b\n  see: hookline launch --help\n");
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"submit", "--scheduler", "slurm", "--print"},
        {"estimate", "--parameters=1M"}}) {
    std::vector<std::string> arguments = verb;
    arguments.insert(arguments.end(),
                     {"--set", "launch.processes_per_node=2", "--set", "launch.processes_per_node=3"});
    if (verb[0] == "submit") arguments.push_back("/bin/true");
    expect_error(arguments,
                 "hookline: error: launch.processes_per_node is given twice: by --set "
                 "launch.processes_per_node\n  see: hookline " +
                     verb[0] + " --help\n");
  }
}

TEST(Usage, RefusesAValueGivenTwiceAsAKeyAndInATable) {
  expect_error({"launch", "--set", "ddp.comm_hook=bf16", "--set", "ddp={comm_hook=\"fp16\"}", "/bin/true"},
               "hookline: error: ddp.comm_hook is given twice: by --set ddp.comm_hook and by --set ddp\n"
               "  see: hookline launch --help\n");
  expect_error({"launch", "--set", "ddp={comm_state_option={start_powerSGD_iter=3}}", "--state-option",
                "start_powerSGD_iter=2", "/bin/true"},
               "hookline: error: ddp.comm_state_option.start_powerSGD_iter is given twice: by --state-option "
               "start_powerSGD_iter and by --set ddp\n"
               "  see: hookline launch --help\n");
}

TEST(Usage, SaysWhichNumbersAFlagTakes) {
  const std::string takes =
      "hookline: error: --parameters takes a whole number from 1 to 1000000000000, not '";
  for (const char* wrong : {"0", "-1", "1.5", "12x", "1e400", "nan", "2000B", "M", "1.0000001M"})
    expect_error({"estimate", std::string("--parameters=") + wrong},
                 takes + wrong + "'\n  see: hookline estimate --help\n");
  expect_error({"test", "--time-limit", "0.5"},
               "hookline: error: --time-limit takes a number from 1 to 86400, not '0.5'\n"
               "  see: hookline test --help\n");
  expect_error({"test", "--time-limit", "2m"},
               "hookline: error: --time-limit takes a number from 1 to 86400, not '2m'\n"
               "  see: hookline test --help\n");
}

TEST(Usage, ShowsAnExampleForAMalformedSetting) {
  expect_error(
      {"launch", "--set", "comm_hook", "/bin/true"},
      "hookline: error: --set needs KEY=VALUE, not 'comm_hook'; for example: --set ddp.comm_hook=fp16\n"
      "  see: hookline launch --help\n");
  expect_error({"launch", "--state-option", "2", "/bin/true"},
               "hookline: error: --state-option needs KEY=VALUE, not '2'; for example: --state-option "
               "matrix_approximation_rank=2\n  see: hookline launch --help\n");
}

TEST(Usage, LeavesTheProgramsHelpFlagToTheProgram) {
  const Sandbox sandbox;
  sandbox.script("train", "echo \"$@\"\n");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"launch", "--", "./train", "--help"}, {"launch", "./train", "--help"}}) {
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_EQ(result.out, "[0] --help\n");
    EXPECT_EQ(result.exit_code, 0);
  }
}

TEST(Command, FailsWhenItsOutputCannotBeWritten) {
  const ProcessResult result =
      testing::run_process("sh", Sandbox().options({"-c", HOOKLINE_BINARY " hooks list >/dev/full"}));
  EXPECT_EQ(result.err, "hookline: error: can't write to standard output\n");
  EXPECT_EQ(result.exit_code, 1);
}

TEST(Command, DoesNotLoadLibtorch) {
  const std::filesystem::path build = std::filesystem::path(HOOKLINE_BINARY).parent_path().parent_path();
  for (const std::string& program :
       {std::string(HOOKLINE_BINARY), (build / "libexec/hookline/node_relay").string()}) {
    const ProcessResult result = testing::run_process("ldd", Sandbox().options({program}));
    EXPECT_EQ(result.exit_code, 0) << program;
    EXPECT_THAT(result.out, HasSubstr("libc.so"));
    EXPECT_THAT(result.out, Not(HasSubstr("torch")));
    EXPECT_THAT(result.out, Not(HasSubstr("libc10")));
  }
}

}  // namespace
}  // namespace hookline
