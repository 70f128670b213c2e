// The verbs of `hookline config` that create, find and change files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;

TEST(ConfigDefault, IsValidAndChangesNoSetting) {
  const Sandbox sandbox;
  const ProcessResult printed = sandbox.run({"config", "default"});
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_THAT(printed.out, AllOf(HasSubstr("\nschema_version = 2\n"), HasSubstr("\n[ddp]\n"),
                                 HasSubstr("\n#comm_hook = \"no\"\n"), HasSubstr("\n# --- power_sgd: "),
                                 HasSubstr("\n#matrix_approximation_rank = 1\n")));
  const ProcessResult written = sandbox.run({"config", "default", "--output", "run.toml"});
  EXPECT_EQ(written.err, "hookline: wrote run.toml\n");
  EXPECT_EQ(sandbox.read("run.toml"), printed.out);
  EXPECT_EQ(sandbox.run({"config", "validate", "run.toml"}).out, "run.toml: ok\n");
  sandbox.folder.write("empty.toml", "[ddp]\n");
  EXPECT_EQ(sandbox.run({"config", "diff", "empty.toml", "run.toml"}).exit_code, 0);
}

TEST(ConfigDefault, NeverReplacesAFileUnlessForced) {
  const Sandbox sandbox;
  sandbox.folder.write("run.toml", "mine");
  const ProcessResult refused = sandbox.run({"config", "default", "--output", "run.toml"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(
      refused.err,
      "hookline: error: 'run.toml' is there already: name another file, or give --force to replace it\n");
  EXPECT_EQ(sandbox.read("run.toml"), "mine");
  EXPECT_EQ(sandbox.run({"config", "default", "--output", "run.toml", "--force"}).exit_code, 0);
  EXPECT_THAT(sandbox.read("run.toml"), StartsWith("# A config of hookline."));
}

TEST(ConfigSet, ChangesAValueAndKeepsTheRest) {
  const Sandbox sandbox;
  sandbox.folder.write("run.toml", "# mine\n[ddp]  # hooks\ncomm_hook = \"no\"   # for now\n");
  const ProcessResult result =
      sandbox.run({"config", "set", "run.toml", "ddp.comm_hook", "powerSGD",
                   "ddp.comm_state_option.matrix_approximation_rank", "2", "training.seed", "7",
                   "ddp.static_graph", "true", "launch.grace_period_seconds", "3", "ddp.plugins", ""});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      sandbox.read("run.toml"),
      "# mine\n[ddp]  # hooks\ncomm_hook = \"power_sgd\"   # for now\nstatic_graph = true\nplugins = []\n\n"
      "[ddp.comm_state_option]\nmatrix_approximation_rank = 2\n\n[training]\nseed = 7\n\n[launch]\n"
      "grace_period_seconds = 3.0\n");
  EXPECT_EQ(sandbox.run({"config", "get", "run.toml", "ddp.comm_hook"}).out, "power_sgd\n");
  EXPECT_EQ(sandbox.run({"config", "get", "run.toml", "training.seed"}).out, "7\n");
  const ProcessResult none = sandbox.run({"config", "get", "run.toml", "training.max_steps"});
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(
      sandbox.run({"config", "set", "--unset", "run.toml", "ddp.static_graph", "ddp.plugins"}).exit_code, 0);
  EXPECT_THAT(sandbox.read("run.toml"), HasSubstr("# for now\n\n[ddp.comm_state_option]"));
}

TEST(ConfigSet, CreatesMissingFilesAndProfiles) {
  const Sandbox sandbox;
  const ProcessResult result =
      sandbox.run({"config", "set", "run.toml", "training.seed", "7", "profile.quick.ddp.comm_hook",
                   "power_sgd", "profile.quick.ddp.comm_state_option.start_powerSGD_iter", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "hookline: 'run.toml' did not exist, and is created\n");
  EXPECT_EQ(sandbox.read("run.toml"),
            "schema_version = 2\n\n[training]\nseed = 7\n\n[profile.quick.ddp]\ncomm_hook = \"power_sgd\"\n\n"
            "[profile.quick.ddp.comm_state_option]\nstart_powerSGD_iter = 2\n");
  EXPECT_EQ(sandbox.run({"config", "validate", "run.toml"}).out,
            "run.toml: ok, with each of its profiles: quick\n");
}

TEST(ConfigSet, WritesNothingThatIsNotValid) {
  const Sandbox sandbox;
  const std::string text = "[ddp]\ncomm_hook = \"fp16\"\n";
  sandbox.folder.write("run.toml", text);
  const auto refused = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"config", "set"});
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(sandbox.read("run.toml"), text);
    return result.err;
  };
  EXPECT_EQ(refused({"run.toml", "ddp.comm_hok", "no"}),
            "hookline: error: unknown key 'ddp.comm_hok'; did you mean 'ddp.comm_hook'?\n  see: hookline "
            "config set --help\n");
  EXPECT_EQ(refused({"run.toml", "comm_hook", "no"}),
            "hookline: error: unknown key 'comm_hook'; did you mean 'ddp.comm_hook'?\n  see: hookline config "
            "set --help\n");
  EXPECT_EQ(refused({"run.toml", "training.seed", "often"}),
            "config set training.seed: error: bad value \"often\" for 'seed' in [training]\n"
            "  must be an integer, at least 0, or \"none\"\n");
  EXPECT_THAT(refused({"run.toml", "ddp.comm_wrapper", "bf16"}),
              AllOf(StartsWith("config set ddp.comm_wrapper: error: comm_wrapper \"bf16\" over comm_hook "
                               "\"fp16\" "),
                    EndsWith("; comm_hook is set at run.toml:2:1\n")));
  EXPECT_EQ(refused({"--unset", "run.toml", "training.seed"}),
            "hookline: error: 'run.toml' has no training.seed\n");
  EXPECT_EQ(
      refused({"run.toml", "training.seed"}),
      "hookline: error: name the file, and each key with its value\n  see: hookline config set --help\n");
  sandbox.folder.write("run.toml", "[ddp\n");
  const ProcessResult broken = sandbox.run({"config", "set", "run.toml", "training.seed", "7"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("'run.toml' is not valid TOML"));
  EXPECT_EQ(sandbox.read("run.toml"), "[ddp\n");
}

TEST(ConfigSet, KeepsPermissionsAndLinks) {
  const Sandbox sandbox;
  const auto file = sandbox.folder.write("real.toml", "[training]\nseed = 1\n");
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  std::filesystem::create_symlink("real.toml", sandbox.folder.path() / "run.toml");
  EXPECT_EQ(sandbox.run({"config", "set", "run.toml", "training.seed", "2"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(sandbox.folder.path() / "run.toml"));
  EXPECT_EQ(sandbox.read("real.toml"), "[training]\nseed = 2\n");
  struct stat info {};
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

TEST(ConfigSet, LosesNothingWhenTheDiskIsFull) {
  const Sandbox sandbox;
  std::string lines = "[training]\nseed = 1\n";
  for (int i = 0; i < 2000; ++i) lines += "# a comment of some length, so that the file does not fit\n";
  sandbox.folder.write("run.toml", lines);
  // A file size limit stands in for a full disk.
  ProcessOptions options =
      sandbox.options({"-c", "ulimit -f 20; exec " HOOKLINE_BINARY " config set run.toml training.seed 2"});
  const ProcessResult result = testing::run_process("/bin/bash", options);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(sandbox.read("run.toml"), lines);
}

TEST(ConfigUpdate, ShowsWhatItChangesAndChangesIt) {
  const Sandbox sandbox;
  const std::string old = "# mine\n[logging]\nlevel = \"info\" # as ever\nprefix = false\n";
  sandbox.folder.write("run.toml", old);
  const std::string diff =
      "--- run.toml\n+++ run.toml\n@@ -1,4 +1,5 @@\n # mine\n+schema_version = 2\n [logging]\n level = "
      "\"info\" # as ever\n-prefix = false\n+prefix_template = \"\"\n";
  const ProcessResult dry = sandbox.run({"config", "update", "run.toml", "--dry-run"});
  EXPECT_EQ(dry.out, diff);
  EXPECT_EQ(dry.err, "hookline: logging.prefix is now prefix_template, in which \"\" means no prefix\n");
  EXPECT_EQ(sandbox.read("run.toml"), old);
  const ProcessResult result = sandbox.run({"config", "update", "run.toml"});
  EXPECT_EQ(result.out, diff);
  EXPECT_THAT(result.err, HasSubstr("hookline: updated run.toml to schema version 2\n"));
  EXPECT_EQ(sandbox.read("run.toml"),
            "# mine\nschema_version = 2\n[logging]\nlevel = \"info\" # as ever\nprefix_template = \"\"\n");
  const ProcessResult again = sandbox.run({"config", "update", "run.toml"});
  EXPECT_EQ(again.err, "hookline: run.toml is of schema version 2 already\n");
  EXPECT_EQ(again.exit_code, 0);
  sandbox.folder.write("new.toml", "schema_version = 9\n");
  const ProcessResult newer = sandbox.run({"config", "update", "new.toml"});
  EXPECT_EQ(newer.exit_code, 2);
  EXPECT_EQ(newer.err,
            "hookline: error: 'new.toml' is of schema version 9, and this hookline knows 1 to 2\n");
}

TEST(ConfigDiff, ShowsWhereTwoConfigsDiffer) {
  const Sandbox sandbox;
  sandbox.folder.write("a.toml",
                       "[ddp]\ncomm_hook = \"power_sgd\"\ncomm_state_option.matrix_approximation_rank = "
                       "2\n[training]\nseed = 1\n");
  sandbox.folder.write("b.toml", "include = [\"a.toml\"]\n[ddp]\ncomm_hook = \"fp16\"\n");
  const ProcessResult result = sandbox.run({"config", "diff", "a.toml", "b.toml"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(
      result.out,
      "ddp.comm_hook\n  - \"power_sgd\" (from file a.toml:2:1)\n  + \"fp16\" (from file b.toml:3:1)\n"
      "ddp.comm_state_option.matrix_approximation_rank\n  - 2 (from file a.toml:3:19)\n  + not there\n");
  const auto json = nlohmann::json::parse(sandbox.run({"config", "diff", "--json", "a.toml", "b.toml"}).out);
  EXPECT_EQ(json.at(0),
            (nlohmann::json{{"key", "ddp.comm_hook"}, {"first", "power_sgd"}, {"second", "fp16"}}));
  EXPECT_EQ(sandbox.run({"config", "diff", "a.toml", "a.toml"}).exit_code, 0);
  EXPECT_EQ(sandbox.run({"config", "diff", "a.toml", "missing.toml"}).exit_code, 2);
}

TEST(ConfigWhere, ShowsADanglingLinkThatLaunchRefuses) {
  const Sandbox sandbox;
  std::filesystem::create_symlink("/gone/run.toml", sandbox.folder.path() / "hookline.toml");
  EXPECT_THAT(
      sandbox.run({"config", "where"}).out,
      HasSubstr("hookline.toml (the current folder): a link to a file that is not there, which hookline "
                "launch refuses\n"));
  const ProcessResult result = sandbox.run({"launch", "/bin/true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("hookline.toml: error: is a link to a file that is not there\n"
                                    "  see where it leads: ls -l\n"));
}

TEST(ConfigWhere, NamesTheFileThatLaunchReads) {
  const Sandbox sandbox;
  const std::string own = (sandbox.folder.path() / "xdg/hookline/config.toml").string();
  EXPECT_EQ(sandbox.run({"config", "where"}).out,
            "hookline.toml (the current folder): not there\n" + own +
                " (XDG_CONFIG_HOME): not there\nno file is read: all values have their defaults, unless "
                "the environment or the command line sets them\n");
  sandbox.folder.write("xdg/hookline/config.toml", "[logging]\nprefix_template = \"mine \"\n");
  EXPECT_EQ(sandbox.run({"config", "where"}).out,
            "hookline.toml (the current folder): not there\n" + own + " (XDG_CONFIG_HOME): read\n");
  const ProcessResult launched = sandbox.run({"launch", "echo", "hello"});
  EXPECT_EQ(launched.out, "mine hello\n");
  EXPECT_THAT(launched.err, HasSubstr("hookline: configured by " + own + "\n"));
  sandbox.folder.write("hookline.toml", "[logging]\nprefix_template = \"here \"\n");
  EXPECT_EQ(sandbox.run({"launch", "echo", "hello"}).out, "here hello\n");
  const auto json = nlohmann::json::parse(sandbox.run({"config", "where", "--json"}).out);
  EXPECT_EQ(json.at(0).at("state"), "read");
  EXPECT_EQ(json.at(1).at("state"), "there, and not read");
  sandbox.folder.write("named.toml", "[logging]\nprefix_template = \"named \"\n");
  EXPECT_EQ(sandbox.run({"launch", "--config", "named.toml", "echo", "hello"}).out, "named hello\n");
  EXPECT_THAT(sandbox.run({"config", "show"}).err, HasSubstr("configured by hookline.toml"));
}

TEST(ConfigForRanks, VariableIsIgnoredOutsideRanksWithAWarning) {
  const Sandbox sandbox;
  sandbox.folder.write("mine.toml", "[logging]\nprefix_template = \"mine \"\n");
  using Variables = std::map<std::string, std::string>;
  const auto run = [&](const std::vector<std::string>& arguments, const Variables& more = {}) {
    testing::ProcessOptions options = sandbox.options(arguments);
    options.environment["RANK"] = std::nullopt;
    options.environment["HOOKLINE_CONFIG"] = "mine.toml";
    for (const auto& [name, value] : more) options.environment[name] = value;
    return testing::run_process(HOOKLINE_BINARY, options).err;
  };
  const std::string told =
      "hookline: warning: HOOKLINE_CONFIG is set, but only ranks read it: name a config ";
  EXPECT_EQ(run({"launch", "--dry-run", "true"}), told + "with --config FILE\n");
  EXPECT_EQ(run({"config", "show"}), told + "as in: hookline config show FILE\n");
  EXPECT_EQ(run({"config", "where"}), told + "with hookline launch --config FILE\n");
  EXPECT_THAT(run({"submit", "--scheduler", "slurm", "--print", "true"}), HasSubstr(told));
  EXPECT_EQ(run({"launch", "--config", "mine.toml", "--dry-run", "true"}), "");
  EXPECT_EQ(run({"config", "show", "mine.toml"}), "");
  EXPECT_EQ(run({"launch", "--dry-run", "true"}, {{"HOOKLINE_RUN_DIR", "runs/1"}}), "") << "inside of a rank";
  EXPECT_EQ(run({"launch", "--dry-run", "true"}, {{"RANK", "0"}}), "") << "inside of a rank";
}

TEST(Profile, IsChosenByALaunch) {
  const Sandbox sandbox;
  sandbox.folder.write("hookline.toml", "[profile.loud.logging]\nprefix_template = \"LOUD \"\n");
  EXPECT_EQ(sandbox.run({"launch", "--profile", "loud", "echo", "hello"}).out, "LOUD hello\n");
  EXPECT_EQ(sandbox.run({"launch", "echo", "hello"}).out, "[0] hello\n");
  const ProcessResult unknown = sandbox.run({"launch", "--profile", "lod", "echo", "hello"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err, "--profile: error: there is no profile 'lod'\n  did you mean 'loud'?\n");
}

TEST(ConfigValidate, ReportsAsJson) {
  const Sandbox sandbox;
  sandbox.folder.write("a.toml", "[profile.x.training]\nseed = -1\n");
  sandbox.folder.write("b.toml", "[training]\nseed = 1\n");
  const ProcessResult result = sandbox.run({"config", "validate", "--json", "a.toml", "b.toml"});
  EXPECT_EQ(result.exit_code, 2);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at(0).at("ok"), false);
  EXPECT_EQ(json.at(0).at("profiles"), nlohmann::json::array({"x"}));
  EXPECT_EQ(json.at(0).at("problems").at(0),
            (nlohmann::json{{"severity", "error"},
                            {"source", "a.toml"},
                            {"line", 2},
                            {"column", 8},
                            {"length", 2},
                            {"message", "bad value -1 for 'seed' in [training]"},
                            {"note", "must be an integer, at least 0, or \"none\""}}));
  EXPECT_EQ(json.at(1), (nlohmann::json{{"file", "b.toml"},
                                        {"ok", true},
                                        {"profiles", nlohmann::json::array()},
                                        {"problems", nlohmann::json::array()}}));
}

TEST(ConfigImport, WarnsOfSettingsThatAPythonScriptIgnores) {
  const Sandbox sandbox;
  sandbox.folder.write(
      "start.sh", "accelerate launch --num_processes 2 --gradient_accumulation_steps 4 train.py --lr 1\n");
  EXPECT_THAT(
      sandbox.run({"config", "import", "start.sh"}).err,
      HasSubstr(
          "hookline: warning: 'train.py' is a Python script, and only hookline's library acts on "
          "training.gradient_accumulation_steps: set the same in the script itself, unless it uses that "
          "library\n"));
  sandbox.folder.write("start.sh", "torchrun --nproc-per-node 2 train.py\n");
  EXPECT_THAT(sandbox.run({"config", "import", "start.sh"}).err, Not(HasSubstr("Python script")));
}

TEST(ConfigImport, WritesAConfigAndSaysWhatEachFlagBecomes) {
  const Sandbox sandbox;
  sandbox.folder.write("start.sh", "torchrun --nproc-per-node=2 --tee 3 ./train --epochs 5\n");
  const ProcessResult result = sandbox.run({"config", "import", "start.sh", "--output", "run.toml"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "hookline: 'start.sh' is a command line of torchrun\n"
            "hookline:   --nproc-per-node=2 becomes launch.processes_per_node = 2\n"
            "hookline:   --tee=3 becomes logging.show = all\n"
            "hookline: wrote run.toml\n"
            "hookline: run it: hookline launch --config run.toml ./train --epochs 5\n");
  EXPECT_THAT(sandbox.read("run.toml"), HasSubstr("\nprocesses_per_node = 2\n"));
  EXPECT_EQ(sandbox.run({"config", "import", "start.sh", "--output", "run.toml"}).exit_code, 2)
      << "it is there";
  EXPECT_EQ(sandbox.run({"config", "import", "none"}).err,
            "hookline: error: 'none' can't be read: No such file or directory\n  see: hookline config import "
            "--help\n");
  sandbox.folder.write("bad", "torchrun --nproc-per-node=many ./train\n");
  const ProcessResult bad = sandbox.run({"config", "import", "bad"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(
      bad.err,
      StartsWith("--nproc-per-node=many: error: bad value \"many\" for 'processes_per_node' in [launch]\n"));
  EXPECT_EQ(bad.out, "");
}

TEST(ConfigImport, ShowsTheLaunchCommandThatReplacesAccelerate) {
  const Sandbox sandbox;
  sandbox.folder.write("jobs/base.yaml", "distributed_type: MULTI_GPU\nnum_processes: 4\n");
  sandbox.folder.write(
      "jobs/start.sh",
      "export NCCL_DEBUG=INFO\nsrun -N2 accelerate launch --config_file base.yaml --num_processes 8 \\\n"
      "  --num_machines ${NODES:-2} --gpu_ids 0,1 -m pkg.train 'a b'\n");
  const ProcessResult result = sandbox.run({"config", "import", "jobs/start.sh", "--output", "run.toml"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.err,
      AllOf(StartsWith("hookline: 'jobs/start.sh' is a command line of accelerate launch, over the config "
                       "'jobs/base.yaml'\n"
                       "hookline:   --num_machines=${NODES:-2} becomes launch.nnodes = 2\n"
                       "hookline:   --num_processes=8 on 2 machines becomes launch.processes_per_node = 4\n"
                       "hookline: warning:   left out: num_processes: 4: --num_processes=8 overrides it\n"
                       "hookline: warning:   left out: --gpu_ids=0,1: launch with CUDA_VISIBLE_DEVICES=0,1\n"
                       "hookline: warning:   line 2: ${NODES:-2} became its default, '2': "),
            EndsWith("\nhookline: wrote run.toml\n"
                     "hookline: run it: NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=0,1 srun -N2 hookline launch "
                     "--config run.toml python3 -m pkg.train 'a b'\n"
                     "hookline: warning: 2 things were left out: see the 'left out' lines above for the "
                     "reasons\n")));
  sandbox.folder.write("a.yaml", "num_processes: 2\nrdzv_backend: c10d\n");
  EXPECT_THAT(
      sandbox.run({"config", "import", "a.yaml"}).err,
      AllOf(StartsWith("hookline: 'a.yaml' is Accelerate's config\n"
                       "hookline:   num_processes: 2 becomes launch.processes_per_node = 2\n"
                       "hookline: warning:   left out: rdzv_backend: c10d: not needed, "),
            EndsWith("\nhookline: warning: 1 thing was left out: see the 'left out' line above for the "
                     "reason\n")));
  sandbox.folder.write("args.sh", "torchrun ./train *.txt \"$LR y\"\n");
  EXPECT_THAT(sandbox.run({"config", "import", "args.sh"}).err,
              AllOf(StartsWith("hookline: 'args.sh' is a command line of torchrun\n"
                               "hookline: warning:   '$LR y' is in the command below "),
                    EndsWith("\nhookline: save this as hookline.toml, and run it: hookline launch --config "
                             "hookline.toml ./train *.txt '$LR y'\n")));
  sandbox.folder.write("escapes.sh", "A=$'x\\ty' torchrun --log_dir=$'a\\tb' ./train $'a\\tb' $'\\e[1m'\n");
  const std::string escapes = sandbox.run({"config", "import", "escapes.sh"}).err;
  EXPECT_THAT(escapes, HasSubstr("  --log-dir=a\tb becomes logging.dir = a\tb\n"));
  EXPECT_THAT(
      escapes,
      HasSubstr("run it: A=$'x\\ty' hookline launch --config hookline.toml ./train $'a\\tb' $'\\033[1m'\n"))
      << "quoted, so that it can be copied";
  sandbox.folder.write("two.sh", "torchrun a.py\ntorchrun b.py\n");
  const ProcessResult two = sandbox.run({"config", "import", "two.sh"});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.err,
              StartsWith("hookline: error: 'two.sh' can't be imported: lines 1 and 2 each start a program"));
}

/// Runs a generic JSON Schema validator on files that hookline itself accepts or refuses.
TEST(ConfigSchema, AcceptsAndRefusesFilesAsValidateDoes) {
  const Sandbox sandbox;
  sandbox.folder.write("schema.json", sandbox.run({"config", "schema"}).out);
  sandbox.folder.write("default.toml", sandbox.run({"config", "default"}).out);
  const std::vector<std::string> valid = {
      "schema_version = 2\ninclude = []\n[launch]\nprocesses_per_node = \"auto\"\nnnodes = 2\n",
      "[launch]\nprocesses_per_node = 4\nnnodes = \"2:4\"\ngrace_period_seconds = 3\n",
      "[ddp]\ncomm_hook = \"power_sgd\"\ncomm_wrapper = \"fp16\"\nplugins = []\n[ddp.comm_state_option]\n"
      "matrix_approximation_rank = 2\nuse_error_feedback = true\n",
      "[training]\nseed = \"none\"\nmax_steps = 5\n[profile.a.training]\nseed = 1\n",
      "[logging]\nlevel = \"warning\"\n",
  };
  const std::vector<std::string> invalid = {
      "[launch]\nprocesses_per_node = 0\n",
      "[launch]\nprocesses_per_node = \"many\"\n",
      "[ddp]\ncomm_hok = \"fp16\"\n",
      "[ddp]\ncomm_wrapper = \"fp8\"\n",
      "[logging]\nlevel = \"loud\"\n",
      "[training]\nseed = -1\n",
      "[trainig]\nseed = 1\n",
      "seed = 1\n",
      "[profile.a.training]\nsed = 1\n",
      "[ddp]\nstatic_graph = \"yes\"\n",
      "[ddp]\nplugins = \"mine.so\"\n",
      "[ddp.comm_state_option]\nmatrix_approximation_rank = 0\n[ddp]\n"
      "comm_hook = \"power_sgd\"\n",
      "schema_version = 3\n",
      "[profile.a]\nprofile.b = 1\n",
      "[launch]\ngrace_period_seconds = -1\n",
  };
  std::vector<std::string> arguments = {"-c",
                                        "import json, sys, tomllib, jsonschema\n"
                                        "schema = json.load(open('schema.json'))\n"
                                        "jsonschema.Draft7Validator.check_schema(schema)\n"
                                        "validator = jsonschema.Draft7Validator(schema)\n"
                                        "for name in sys.argv[1:]:\n"
                                        "  data = tomllib.load(open(name, 'rb'))\n"
                                        "  print(name, 'good' if validator.is_valid(data) else 'bad')\n",
                                        "default.toml"};
  std::string expected = "default.toml good\n";
  const auto add = [&](const std::string& name, const std::string& text, bool is_valid) {
    sandbox.folder.write(name, text);
    arguments.push_back(name);
    expected += name + (is_valid ? " good\n" : " bad\n");
    EXPECT_EQ(sandbox.run({"config", "validate", name}).exit_code == 0, is_valid) << text;
  };
  for (std::size_t i = 0; i < valid.size(); ++i) add("valid" + std::to_string(i) + ".toml", valid[i], true);
  for (std::size_t i = 0; i < invalid.size(); ++i)
    add("invalid" + std::to_string(i) + ".toml", invalid[i], false);
  // Every key as the default file shows it, except the options of hooks: a config can't set options of two
  // hooks at once.
  std::istringstream lines(sandbox.read("default.toml"));
  std::string all;
  bool is_of_hooks = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) is_of_hooks = line == "[ddp.comm_state_option]";
    if (is_of_hooks) continue;
    if (line.starts_with('#') && !line.starts_with("# ")) line.erase(0, 1);
    all += line + "\n";
  }
  add("all.toml", all, true);
  const ProcessResult result = testing::run_process("/usr/bin/python3", sandbox.options(arguments));
  EXPECT_EQ(result.out, expected) << result.err;
}

}  // namespace
}  // namespace hookline
