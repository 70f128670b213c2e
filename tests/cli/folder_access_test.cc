// Folders that the user may not enter, as encountered by every verb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_hookline.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;

/// An unprivileged user in a folder of its own, which contains a folder `locked` that it may not enter.
class Stranger : public Sandbox {
 public:
  Stranger() {
    fs::permissions(folder.path(), fs::perms::all);
    for (const char* file : {"locked/run.toml", "locked/sweep.toml", "locked/model.safetensors"})
      folder.write(file, "[ddp]\ncomm_hook = \"fp16\"\n");
    fs::create_directories(folder.path() / "locked" / "steps" / "step_00000001");
    folder.write("locked/train", "#!/bin/sh\n", true);
    folder.write("run.toml", "[ddp]\n");
    script("train", "exit 0\n");
    fs::permissions(folder.path() / "locked", geteuid() == 0 ? fs::perms::owner_all : fs::perms::none);
  }
  ~Stranger() { fs::permissions(folder.path() / "locked", fs::perms::owner_all); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  ProcessResult run(const std::vector<std::string>& arguments) const {
    testing::ProcessOptions with = options(arguments);
    if (geteuid() != 0) return testing::run_process(HOOKLINE_BINARY, with);
    with.arguments = {"--reuid=65534", "--regid=65534", "--clear-groups", HOOKLINE_BINARY};
    with.arguments.insert(with.arguments.end(), arguments.begin(), arguments.end());
    return testing::run_process("/usr/bin/setpriv", with);
  }

  /// Why no unprivileged user can be used here; empty if one can.
  std::string why_none() const {
    const ProcessResult result = run({"--version"});
    return result.exit_code == 0 ? "" : "nobody but root can run " HOOKLINE_BINARY ": " + result.err;
  }
};

TEST(LockedFolder, IsNamedByEveryVerbWithAdvice) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  // Without `env` and `config where`, which show such a problem among what they print.
  const std::vector<std::vector<std::string>> commands = {
      {"report", "locked/sweep"},
      {"report", ".", "--output", "locked/page.html"},
      {"report", ".", "--plots", "locked/plots"},
      {"sweep", "locked/sweep.toml"},
      {"checkpoint", "inspect", "locked/steps"},
      {"checkpoint", "verify", "locked/steps/step_00000001"},
      {"config", "validate", "locked/run.toml"},
      {"config", "show", "locked/run.toml"},
      {"config", "get", "locked/run.toml", "ddp.comm_hook"},
      {"config", "set", "locked/run.toml", "ddp.comm_hook", "no"},
      {"config", "diff", "run.toml", "locked/run.toml"},
      {"config", "update", "locked/run.toml"},
      {"config", "import", "locked/run.toml"},
      {"config", "default", "--output", "locked/new.toml"},
      {"launch", "--config", "locked/run.toml", "./train"},
      {"launch", "--set", "logging.dir=locked/runs", "./train"},
      {"launch", "--set", "training.checkpoint_every_steps=1", "--set",
       "training.checkpoint_dir=locked/steps", "./train"},
      {"launch", "--set", "training.checkpoint_every_steps=1", "--set",
       "training.resume=locked/steps/step_00000001", "./train"},
      {"launch", "--set", "training.record_gradients=locked/gradients", "./train"},
      {"launch", "--dry-run", "--config", "locked/run.toml", "./train"},
      {"advise", "--config", "locked/run.toml", "./train"},
      {"test", "--config", "locked/run.toml"},
      {"estimate", "locked/model.safetensors"},
      {"submit", "--scheduler", "slurm", "--print", "--config", "locked/run.toml", "./train"},
      {"replay", "--input", "locked/gradients", "--output", "out"},
      {"new", "locked/project"},
      {"trial", "locked/trial"},
      {"hooks", "list", "--plugin", "locked/plugin.so"},
      {"launch", "--config", "includes.toml", "./train"},
      {"launch", "--set", "ddp.plugins=[\"locked/plugin.so\"]", "./train"},
      {"sweep", "with_config.toml"},
  };
  stranger.folder.write("includes.toml", "include = [\"locked/run.toml\"]\n");
  stranger.folder.write(
      "with_config.toml",
      "[sweep]\nprogram = [\"./train\"]\nconfig = \"locked/run.toml\"\n[grid]\nargs.a = [1]\n");
  for (const auto& command : commands) {
    const ProcessResult result = stranger.run(command);
    std::string line;
    for (const std::string& word : command) line += word + " ";
    EXPECT_EQ(result.exit_code, 2) << line << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("this user may not enter the folder 'locked'"),
                                  HasSubstr("(chmod a+x)"), Not(HasSubstr("filesystem error"))))
        << line;
  }
}

// As in a shell, a program can be run without being readable.
TEST(UnreadableProgram, RunsWithoutItsHooksChecked) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  const fs::path program = stranger.folder.path() / "true";
  fs::copy_file("/bin/true", program);
  fs::permissions(program, geteuid() == 0
                               ? fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec
                               : fs::perms::owner_exec);
  const std::string warning =
      "hookline: warning: this user may not read the program './true', so its own hooks and their options "
      "are "
      "checked only when it runs; chmod a+r lets hookline check them beforehand\n";
  for (const std::vector<std::string>& set :
       {std::vector<std::string>{}, {"--set", "ddp.comm_hook=program:of_its_own"}}) {
    std::vector<std::string> arguments = {"launch", "--set", "logging.status=off"};
    arguments.insert(arguments.end(), set.begin(), set.end());
    arguments.push_back("./true");
    const ProcessResult result = stranger.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, StartsWith(warning));
  }
  EXPECT_EQ(stranger.run({"submit", "--scheduler", "slurm", "--print", "./true"}).exit_code, 0);
}

// An inaccessible results folder may already hold results, so the sweep refuses it, naming its absolute path.
TEST(LockedFolder, AsSweepOutputIsBadInput) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  stranger.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n[grid]\nargs.a = [1, 2]\n");
  const std::string locked = (stranger.folder.path() / "locked").string();
  const ProcessResult result = stranger.run({"sweep", "s.toml", "--output", "locked/results"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("hookline: error: '" + locked +
                                     "/results' can't be reached: this user may not enter the folder '" +
                                     locked + "'\n"));
}

// The report is written all the same, but a warning says that it lacks the trials' curves, configs and logs.
TEST(LockedFolder, OfTrialsIsNamedByTheirReport) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  stranger.folder.write("s.toml", "[sweep]\nprogram = [\"./train\"]\n[grid]\nargs.a = [1, 2]\n");
  ASSERT_EQ(stranger.run({"sweep", "s.toml", "--output", "results"}).exit_code, 0);
  const fs::path results = stranger.folder.path() / "results";
  ASSERT_EQ(::chown((results / "trials").c_str(), geteuid(), getegid()), 0);
  fs::permissions(results / "trials", geteuid() == 0 ? fs::perms::owner_all : fs::perms::none);
  const ProcessResult result = stranger.run({"report", "results"});
  fs::permissions(results / "trials", fs::perms::owner_all);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(
      result.err.substr(0, result.err.find("hookline: the report is"))
          .find(
              "hookline: warning: the report lacks what could not be read of the trials: 6 files, the first: "
              "'results/trials/"),
      0u)
      << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("' can't be reached: this user may not enter the folder 'results/trials'\n"));
}

TEST(LockedFolder, HasTheseExactMessages) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(stranger.run({"report", "locked/sweep"}).err,
            "hookline: error: 'locked/sweep' can't be reached: this user may not enter the folder 'locked'\n"
            "  ask its owner for access (chmod a+x), or choose another folder\n");
  EXPECT_EQ(stranger.run({"report", "locked"}).err,
            "hookline: error: this user may not enter the folder 'locked'\n"
            "  ask its owner for access (chmod a+rx), or choose another folder\n");
  EXPECT_EQ(
      stranger.run({"hooks", "list", "--plugin", "locked/plugin.so"}).err,
      "hookline: error: plug-in 'locked/plugin.so' can't be reached: this user may not enter the folder "
      "'locked': ask its owner for access (chmod a+x), or choose another folder\n");
  EXPECT_EQ(
      stranger.run({"hooks", "list", "--plugin", "locked"}).err,
      "hookline: error: plug-in 'locked' can't be reached: this user may not enter the folder 'locked': "
      "ask its owner for access (chmod a+rx), or choose another folder\n");
  if (geteuid() == 0) fs::permissions(stranger.folder.path() / "locked", static_cast<fs::perms>(0711));
  if (geteuid() != 0) fs::permissions(stranger.folder.path() / "locked", static_cast<fs::perms>(0311));
  EXPECT_EQ(stranger.run({"checkpoint", "inspect", "locked"}).err,
            "hookline: error: this user may not read the folder 'locked'\n"
            "  ask its owner for access (chmod a+r), or choose another folder\n");
}

TEST(LockedFolder, OfAnImportedConfigIsNamedByConfigImport) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  stranger.folder.write("start.sh", "accelerate launch --config_file locked/run.toml train.py\n");
  const ProcessResult result = stranger.run({"config", "import", "start.sh"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      StartsWith("hookline: error: 'start.sh' can't be imported: --config_file=locked/run.toml: "
                 "'locked/run.toml' can't be reached: this user may not enter the folder 'locked'\n"));
}

// Exit code 126: a shell's code for a program that can't be run.
TEST(LockedFolder, OfAProgramIsNamed) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  const ProcessResult result = stranger.run({"launch", "locked/train"});
  EXPECT_EQ(result.exit_code, 126);
  EXPECT_THAT(result.err, StartsWith("hookline: error: program 'locked/train': 'locked/train' can't be "
                                     "reached: this user may not enter the folder 'locked'\n"));
}

TEST(LockedFolder, OfTheUserConfigIsNamedByConfigWhereAndLaunch) {
  const Stranger stranger;
  if (const std::string why = stranger.why_none(); !why.empty()) GTEST_SKIP() << why;
  fs::create_directories(stranger.folder.path() / "xdg" / "hookline");
  stranger.folder.write("xdg/hookline/config.toml", "[ddp]\n");
  fs::permissions(stranger.folder.path() / "xdg", geteuid() == 0 ? fs::perms::owner_all : fs::perms::none);
  fs::remove(stranger.folder.path() / "hookline.toml");
  EXPECT_THAT(stranger.run({"config", "where"}).out,
              HasSubstr("(XDG_CONFIG_HOME): not read, since this user may not enter its folder\n"));
  const std::string xdg = (stranger.folder.path() / "xdg").string();
  EXPECT_THAT(stranger.run({"launch", "--dry-run", "/bin/true"}).err,
              StartsWith("hookline: warning: can't look for a config: '" + xdg +
                         "/hookline/config.toml' can't be reached: this user may not enter the folder '" +
                         xdg + "'\n"));
  fs::permissions(stranger.folder.path() / "xdg", fs::perms::owner_all);
}

}  // namespace
}  // namespace hookline
