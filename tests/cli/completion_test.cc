// `hookline completion`, tested in the shells themselves, and the man pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::string candidates(const Sandbox& sandbox, std::vector<std::string> words) {
  words.insert(words.begin(), {"complete-words", "--"});
  const ProcessResult result = sandbox.run(words);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  return result.out;
}

TEST(Completion, KnowsVerbsFlagsHooksKeysAndValues) {
  const Sandbox sandbox;
  EXPECT_THAT(candidates(sandbox, {""}),
              AllOf(HasSubstr("launch\tRun a program on several ranks\n"), HasSubstr("config\t")));
  EXPECT_EQ(candidates(sandbox, {"config", "val"}), "validate\tCheck config files\n");
  EXPECT_EQ(
      candidates(sandbox, {"checkpoint", ""}),
      "inspect\tShow what a checkpoint holds\nverify\tCompare a checkpoint's files with their checksums\n");
  EXPECT_EQ(candidates(sandbox, {"launch", "--dry"}),
            "--dry-run\tPrint what each rank would get, and start nothing\n");
  EXPECT_THAT(candidates(sandbox, {"launch", "--comm-hook", "pow"}),
              ::testing::MatchesRegex("power_sgd\tSends [^\n]*[.]\n"));
  EXPECT_THAT(candidates(sandbox, {"launch", "--comm-hook=b"}),
              AllOf(StartsWith("--comm-hook=bf16\t"), HasSubstr("=batched")));
  EXPECT_THAT(candidates(sandbox, {"launch", "--set", "training.se"}), StartsWith("training.seed=\t"));
  EXPECT_EQ(candidates(sandbox, {"launch", "--set", "logging.level=w"}), "logging.level=warning\t\n");
  EXPECT_EQ(candidates(sandbox, {"launch", "--set", "ddp.comm_state_option.warm_start="}),
            "ddp.comm_state_option.warm_start=true\t\nddp.comm_state_option.warm_start=false\t\n");
  EXPECT_THAT(candidates(sandbox, {"launch", "--state-option", "matrix"}),
              StartsWith("matrix_approximation_rank=\t"));
  EXPECT_THAT(candidates(sandbox, {"hooks", "describe", "fp"}), StartsWith("fp16\t"));
  EXPECT_THAT(candidates(sandbox, {"config", "set", "a.toml", "ddp.comm_w"}),
              StartsWith("ddp.comm_wrapper\t"));
  EXPECT_THAT(candidates(sandbox, {"config", "set", "a.toml", "ddp.comm_wrapper", "b"}),
              StartsWith("bf16\t"));
  EXPECT_EQ(candidates(sandbox, {"submit", "--scheduler", "s"}), "slurm\t\n");
  EXPECT_EQ(candidates(sandbox, {"completion", "f"}), "fish\t\n");
}

TEST(Completion, KnowsTheProfilesOfTheConfig) {
  const Sandbox sandbox;
  sandbox.folder.write("hookline.toml", "[profile.quick.training]\nseed = 1\n");
  sandbox.folder.write("other.toml", "[profile.slow.training]\nseed = 1\n");
  EXPECT_EQ(candidates(sandbox, {"launch", "--profile", ""}), "quick\t\n");
  EXPECT_EQ(candidates(sandbox, {"launch", "--config", "other.toml", "--profile", ""}), "slow\t\n");
}

TEST(Completion, LeavesFilesAndTheProgramToTheShell) {
  const Sandbox sandbox;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"launch", "--config", ""},
                                             {"launch", "./tr"},
                                             {"launch", "./train", "--config"},
                                             {"config", "validate", ""},
                                             {"launch", "--", "x"},
                                             {"config", "get", ""}})
    EXPECT_EQ(candidates(sandbox, words), ":files\n");
  EXPECT_EQ(candidates(sandbox, {"nonsense", ""}), "");
  EXPECT_EQ(candidates(sandbox, {}), "");
}

/// An environment in which `hookline` on PATH is the command under test.
ProcessOptions with_hookline(const Sandbox& sandbox, std::vector<std::string> arguments) {
  ProcessOptions options = sandbox.options(std::move(arguments));
  const std::string folder = std::filesystem::path(HOOKLINE_BINARY).parent_path();
  options.environment["PATH"] = folder + ":/usr/bin:/bin";
  options.environment["TERM"] = "xterm";
  options.environment["HOME"] = sandbox.folder.path().string();
  return options;
}

TEST(Completion, WorksInBash) {
  const Sandbox sandbox;
  Terminal bash("/bin/bash", with_hookline(sandbox, {"--norc", "--noprofile", "-i"}));
  bash.type("source <(hookline completion bash); echo 'set'' up'\r");
  ASSERT_TRUE(bash.shows("set up")) << bash.screen();
  bash.type("echo hookline; hookline hooks desc" + keys::kTab + "pow" + keys::kTab);
  EXPECT_TRUE(bash.shows("hooks describe power_sgd ")) << bash.screen();
  bash.type(
      "\x15"
      "hookline launch --set logging.lev" +
      keys::kTab + "warn" + keys::kTab);
  EXPECT_TRUE(bash.shows("--set logging.level=warning ")) << bash.screen();
  sandbox.folder.write("mine.toml", "");
  bash.type(
      "\x15"
      "hookline launch --config mi" +
      keys::kTab);
  EXPECT_TRUE(bash.shows("--config mine.toml ")) << bash.screen();
}

TEST(Completion, WorksInZsh) {
  const Sandbox sandbox;
  Terminal zsh("/usr/bin/zsh", with_hookline(sandbox, {"-f", "-i"}));
  zsh.type(
      "autoload -U compinit; compinit -u -D; source <(hookline completion zsh); echo 'set'' "
      "up'\r");
  ASSERT_TRUE(zsh.shows("set up")) << zsh.screen();
  zsh.type("hookline hooks desc" + keys::kTab + "pow" + keys::kTab);
  EXPECT_TRUE(zsh.shows("wer_sgd")) << zsh.screen();
  zsh.type(
      "\x15"
      "hookline launch --set logging.lev" +
      keys::kTab + "warn" + keys::kTab);
  EXPECT_TRUE(zsh.shows("el=") && zsh.shows("ing")) << zsh.screen();
}

TEST(Completion, WorksInFish) {
  const Sandbox sandbox;
  sandbox.folder.write("mine.toml", "");
  const ProcessResult result = testing::run_process(
      "/usr/bin/fish",
      with_hookline(sandbox, {"--no-config", "-c",
                              "hookline completion fish | source\n"
                              "complete -C 'hookline hooks desc'; complete -C 'hookline hooks describe pow'\n"
                              "complete -C 'hookline launch --set logging.level=w'\n"
                              "complete -C 'hookline launch --config mi'\n"}));
  EXPECT_EQ(result.out,
            "describe\tDescribe a hook and its options\n"
            "power_sgd\tSends two thin factors of each gradient matrix instead of the matrix.\n"
            "logging.level=warning\nmine.toml\n")
      << result.err;
}

TEST(Completion, RefusesOtherShells) {
  const ProcessResult result = Sandbox().run({"completion", "tcsh"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: there is no completion for 'tcsh': choose bash, zsh or fish\n  see: hookline "
            "completion "
            "--help\n");
}

// `./dev docs --update` regenerates the pages.
TEST(ReferencePages, MatchTheDocumentation) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run({"reference-pages", "pages"}).exit_code, 0);
  for (const std::string page : {"config_keys.md", "hooks.md", "command_line.md", "sweep_keys.md"})
    EXPECT_EQ(sandbox.read("pages/" + page), testing::read_file(REFERENCE_PAGES "/" + page)) << page;
}

TEST(ManPages, SayWhatHelpSays) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run({"man-pages", "man1"}).exit_code, 0);
  ProcessOptions options = sandbox.options({"-c", "groff -man -ww -z man1/*.1"});
  const ProcessResult checked = testing::run_process("/bin/sh", options);
  EXPECT_EQ(checked.exit_code, 0);
  EXPECT_EQ(checked.err, "") << "groff has no complaints";
  options.arguments = {"-c", "groff -man -Tascii -P-c -P-u -P-b man1/hookline-config-set.1"};
  const std::string page = testing::run_process("/bin/sh", options).out;
  EXPECT_THAT(page, AllOf(HasSubstr("hookline-config-set - Set values of a file; its comments stay"),
                          HasSubstr("--unset\n"), HasSubstr("hookline config set run.toml ")));
  EXPECT_THAT(sandbox.read("man1/hookline.1"), HasSubstr("hookline\\-checkpoint\\-verify"));
}

}  // namespace
}  // namespace hookline
