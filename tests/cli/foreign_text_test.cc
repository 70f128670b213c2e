// Untrusted names and values, as every verb shows them on a terminal and writes them to a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_hookline.h"
#include "support/terminal.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::Sandbox;
using testing::Terminal;

// Sets the title, clears the screen and turns text red with a C1 control.
const std::string kSteering =
    "\x1b]0;title\x07\x1b[2J\xc2\x9b"
    "31m";
const std::string kShown = "\\x1b]0;title\\x07\\x1b[2J\\u009b31m";
const std::string kNoText = "\xff";  // a byte that is not valid UTF-8

/// What the verb prints on a terminal.
std::string screen_of(const Sandbox& sandbox, const std::vector<std::string>& arguments,
                      const std::string& variable = "") {
  testing::ProcessOptions options = sandbox.options(arguments);
  if (!variable.empty()) options.environment["NCCL_SOCKET_IFNAME"] = variable;
  Terminal terminal(HOOKLINE_BINARY, options);
  terminal.exit_code();
  return terminal.screen();
}

void expect_clean(const std::string& screen, const std::string& what) {
  for (const std::string text : {"\x1b", "\x07", "\xc2\x9b", "\xff"})
    EXPECT_THAT(screen, Not(HasSubstr(text))) << what;
}

/// Writes a config file whose name and values hold terminal control sequences; returns the name.
std::string steering_config(const Sandbox& sandbox) {
  const std::string name = "a" + kSteering + kNoText + ".toml";
  sandbox.folder.write(name, "schema_version = 1\n[launch]\n[logging]\ndir = \"d\\u001b[2J\\u009b31m\"\n");
  return name;
}

TEST(ForeignText, IsEscapedOnTheTerminalByEveryVerb) {
  const Sandbox sandbox;
  const std::string file = steering_config(sandbox);
  sandbox.folder.write("plain.toml", "[launch]\n");
  sandbox.folder.write(
      "accelerate.yaml",
      "compute_environment: LOCAL_MACHINE\nnum_processes: 2\n\"a\\e]0;title\\ab\": \"\\e[2J\"\n");
  sandbox.script("train" + kSteering, "exit 0\n");
  const std::string program = "./train" + kSteering;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"config", "show", file},
           {"config", "show", "--json", file},
           {"config", "diff", "plain.toml", file},
           {"config", "diff", "--json", "plain.toml", file},
           {"config", "get", file, "logging.dir"},
           {"config", "validate", file},
           {"config", "validate", file, "no" + file},
           {"config", "update", file, "--dry-run"},
           {"config", "import", "accelerate.yaml"},
           {"config", "import", file},
           {"env", "--config", file},
           {"test", "--config", file},
           {"advise", "--config", file, program},
           {"trial", file},
           {"launch", "--config", file, "--dry-run", program},
           {"submit", "--scheduler", "mpirun", "--print", "--config", file, program},
           {"submit", "--scheduler", "slurm", "--print", "--config", file, program},
           {"checkpoint", "inspect", file},
           {"checkpoint", "verify", file},
           {"estimate", file},
           {"report", file},
           {"replay", "--input", file, "--output", "out"},
           {"sweep", file},
           {"hooks", "describe", kSteering},
           {"hooks", "list", "--plugin", file},
           {"new", file}}) {
    std::string line;
    for (const std::string& word : command) line += word + " ";
    const std::string screen = screen_of(sandbox, command);
    EXPECT_FALSE(screen.empty()) << line;
    expect_clean(screen, line);
  }
}

TEST(ForeignText, IsKeptOnOneLineDespiteLineBreaks) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"checkpoint", "inspect", "x\ny"}).err,
            "hookline: error: there is no folder 'x\\ny'\n  see: hookline checkpoint inspect --help\n");
  sandbox.script("train", "exit 0\n");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"checkpoint", "verify", "x\ny"},
           {"completion", "x\ny"},
           {"config", "import", "x\ny"},
           {"config", "update", "x\ny"},
           {"estimate", "x\ny"},
           {"estimate", "folder/x\ny/z"},
           {"hooks", "describe", "x\ny"},
           {"hooks", "list", "--plugin", "x\ny"},
           {"hooks", "list", "--plugin=x\ny"},
           {"launch", "x\ny"},
           {"launch", "--config=x\ny", "./train"},
           {"new", "x\ny"},
           {"replay", "--output", "o", "--input", "x\ny"},
           {"report", "x\ny"},
           {"submit", "--scheduler", "x\ny", "./train"},
           {"submit", "--scheduler", "slurm", "--template", "x\ny", "./train"},
           {"sweep", "x\ny"},
           {"trial", "x\ny"},
           {"x\ny"}}) {
    std::string line;
    for (const std::string& word : command) line += word + " ";
    const ProcessResult result = sandbox.run(command);
    EXPECT_NE(result.exit_code, 0) << line;
    EXPECT_THAT(result.err, AllOf(HasSubstr("x\\ny"), Not(HasSubstr("x\ny")))) << line;
  }
}

TEST(ForeignText, IsEscapedInWhatEnvShows) {
  const Sandbox sandbox;
  const std::string screen = screen_of(sandbox, {"env"}, kSteering + kNoText);
  EXPECT_THAT(screen, HasSubstr(kShown + "\\xff"));
  expect_clean(screen, "env");
  testing::ProcessOptions piped = sandbox.options({"env"});
  piped.environment["NCCL_SOCKET_IFNAME"] = kSteering;
  EXPECT_THAT(testing::run_process(HOOKLINE_BINARY, piped).out, HasSubstr(kShown))
      << "text for people is escaped in a pipe, too";
}

TEST(ForeignText, ReachesProgramsUnescaped) {
  const Sandbox sandbox;
  const std::string file = steering_config(sandbox);
  EXPECT_EQ(sandbox.run({"config", "get", file, "logging.dir"}).out,
            "d\x1b[2J\xc2\x9b"
            "31m\n");
  const auto shown = nlohmann::json::parse(sandbox.run({"config", "show", "--json", file}).out);
  EXPECT_EQ(shown.at("logging").at("dir").at("value"),
            "d\x1b[2J\xc2\x9b"
            "31m");
}

// The output must be valid TOML both on a terminal, from which users copy it, and in a pipe.
TEST(ForeignText, KeepsConfigShowOutputValid) {
  const Sandbox sandbox;
  const std::string file = steering_config(sandbox);
  for (const std::string& text :
       {sandbox.run({"config", "show", file}).out, screen_of(sandbox, {"config", "show", file})}) {
    sandbox.folder.write("copy.toml", text);
    const ProcessResult copy = sandbox.run({"config", "get", "copy.toml", "logging.dir"});
    EXPECT_EQ(copy.exit_code, 0) << copy.err << text;
    EXPECT_EQ(copy.out,
              "d\x1b[2J\xc2\x9b"
              "31m\n");
  }
}

// Human-readable output is escaped even in files and pipes, since people read those on terminals too.
TEST(ForeignText, IsEscapedInPlansAndSweepTables) {
  const Sandbox sandbox;
  sandbox.script("train" + kSteering,
                 "printf '{\"step\": 1, \"a\\\\u001b]0;title\\\\u0007\": 1}\\n' > "
                 "$HOOKLINE_RUN_DIR/metrics.jsonl\n");
  const ProcessResult plan = sandbox.run({"launch", "--dry-run", "./train" + kSteering, kSteering});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  expect_clean(plan.out, "launch --dry-run");
  EXPECT_THAT(plan.out, HasSubstr("\nprogram\n  ./train" + kShown + "\n"));
  sandbox.folder.write("s.toml",
                       "[sweep]\nprogram = [\"./train\\u001b]0;title\\u0007\\u001b[2J\\u009b31m\"]\n"
                       "metric = \"a\\u001b]0;title\\u0007\"\n[grid]\nargs.a = [1, 2]\n");
  const ProcessResult sweep = sandbox.run({"sweep", "s.toml", "--output", "d\x1b[2J"});
  EXPECT_EQ(sweep.exit_code, 0) << sweep.err;
  expect_clean(sweep.out + sweep.err, "sweep");
  EXPECT_THAT(sweep.out, AllOf(HasSubstr("a\\x1b]0;title\\x07  "),
                               HasSubstr("\nNo clear best: the first row has one trial, "),
                               HasSubstr(". The first row, with a\\x1b]0;title\\x07 1 (one trial), is ")));
}

}  // namespace
}  // namespace hookline
