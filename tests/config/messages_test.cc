// The exact error messages that users of a config see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

class Messages : public ::testing::Test {
 private:
  TempFolder folder_;
};

TEST_F(Messages, NameTheNearestOptionOfTheHook) {
  EXPECT_EQ(
      report_of("[ddp]\ncomm_hook = \"power_sgd\"\n[ddp.comm_state_option]\nmatrix_aproximation_rank = 2\n"),
      "run.toml:4:1: error: unknown key 'matrix_aproximation_rank' in [ddp.comm_state_option]\n"
      "  4 | matrix_aproximation_rank = 2\n"
      "    | ^~~~~~~~~~~~~~~~~~~~~~~~ not an option of power_sgd; did you mean "
      "'matrix_approximation_rank'?\n");
}

TEST_F(Messages, ListTheOptionsWhenNoneIsNear) {
  EXPECT_EQ(report_of("[ddp]\ncomm_hook = \"batched_power_sgd\"\ncomm_state_option = { x = 2 }\n"),
            "run.toml:3:23: error: unknown key 'x' in [ddp.comm_state_option]\n"
            "  3 | comm_state_option = { x = 2 }\n"
            "    |                       ^ not an option of batched_power_sgd, which has "
            "matrix_approximation_rank, "
            "start_powerSGD_iter, use_error_feedback, warm_start, orthogonalization_epsilon, random_seed, "
            "compression_stats_logging_frequency\n");
}

TEST_F(Messages, NameTheNearestKeyAndTable) {
  EXPECT_EQ(report_of("[lanch]\nx = 1\n[ddp]\ncom_hook = \"fp16\"\n"),
            "run.toml:1:2: error: unknown table [lanch]\n"
            "  1 | [lanch]\n"
            "    |  ^~~~~ did you mean [launch]?\n"
            "run.toml:4:1: error: unknown key 'com_hook' in [ddp]\n"
            "  4 | com_hook = \"fp16\"\n"
            "    | ^~~~~~~~ did you mean 'comm_hook'?\n");
}

TEST_F(Messages, SayWhatABackendDoesNotWorkWith) {
  EXPECT_EQ(
      report_of("[launch]\nbackend = \"shm\"\ndevice = \"cuda\"\n"),
      "run.toml:2:11: error: backend \"shm\" does not work with device \"cuda\"\n"
      "  2 | backend = \"shm\"\n"
      "    |           ^~~~~ it shares the memory of CPUs: set device = \"cpu\", or backend = \"nccl\" or "
      "\"gloo\"; device is set at run.toml:3:1\n");
  EXPECT_EQ(
      report_of("[launch]\nbackend = \"shm\"\nnnodes = 2\n"),
      "run.toml:2:11: error: backend \"shm\" does not work with several hosts\n"
      "  2 | backend = \"shm\"\n"
      "    |           ^~~~~ ranks share memory on one host only: set nnodes = 1, or backend = \"auto\" or "
      "\"gloo\"; nnodes is set at run.toml:3:1\n");
}

TEST_F(Messages, SayWhereAMisplacedKeyBelongs) {
  EXPECT_EQ(
      report_of("seed = 1\nlr = 1\n[ddp]\nmax_steps = 4\nlearning_rate = 0.1\n[foo]\n"),
      "run.toml:1:1: error: key 'seed' is outside of any table\n"
      "  1 | seed = 1\n"
      "    | ^~~~ it belongs in [training]\n"
      "run.toml:2:1: error: key 'lr' is outside of any table\n"
      "  2 | lr = 1\n"
      "    | ^~ the tables are [launch], [rendezvous], [ddp], [ddp.auto], [fsdp], [training], [logging]\n"
      "run.toml:4:1: error: unknown key 'max_steps' in [ddp]\n"
      "  4 | max_steps = 4\n"
      "    | ^~~~~~~~~ it belongs in [training]\n"
      "run.toml:5:1: error: unknown key 'learning_rate' in [ddp]\n"
      "  5 | learning_rate = 0.1\n"
      "    | ^~~~~~~~~~~~~ [ddp] has dim, broadcast_buffers, bucket_cap_mb, find_unused_parameters, "
      "check_reduction, gradient_as_bucket_view, static_graph, shard_optimizer, comm_hook, comm_wrapper, "
      "comm_scope, plugins, comm_state_option, auto\n"
      "run.toml:6:2: error: unknown table [foo]\n"
      "  6 | [foo]\n"
      "    |  ^~~ the tables are [launch], [rendezvous], [ddp], [ddp.auto], [fsdp], [training], [logging]\n");
}

TEST_F(Messages, SayWhatFormAStringMustHave) {
  EXPECT_EQ(
      report_of("[logging]\nshow_ranks = \"0,,2\"\nprefix_template = \"[${rnak}]\"\n"),
      "run.toml:2:14: error: bad value \"0,,2\" for 'show_ranks' in [logging]\n"
      "  2 | show_ranks = \"0,,2\"\n"
      "    |              ^~~~~~ must be \"all\", \"none\", or numbers of ranks, such as \"0\" or \"0,2-5\"\n"
      "run.toml:3:19: error: bad value \"[${rnak}]\" for 'prefix_template' in [logging]\n"
      "  3 | prefix_template = \"[${rnak}]\"\n"
      "    |                   ^~~~~~~~~~~ the placeholders are ${rank}, ${local_rank}, ${role_name} and "
      "${host}\n");
  for (const std::string ranks : {"", "x", "3-1", "0-", "-1", "1,", "0 1"})
    EXPECT_NE(report_of("[logging]\nshow_ranks = \"" + ranks + "\"\n"), "") << ranks;
  for (const std::string prefix : {"${", "${}", "${rank", "${RANK}"})
    EXPECT_NE(report_of("[logging]\nprefix_template = \"" + prefix + "\"\n"), "") << prefix;
  EXPECT_THAT(report_of("\"a\\nerror: forged\" = 1\n"), ::testing::HasSubstr("'a\\nerror: forged'"))
      << "a key can't begin a line of the report";
  EXPECT_EQ(report_of("[logging]\nshow_ranks = \"0-3,7\"\nprefix_template = \"$rank {} $\"\n"), "");
}

TEST_F(Messages, SayWhatAnArrayMayHold) {
  EXPECT_EQ(report_of("[logging]\ntrackers = [\"mlflow\", \"tensorbord\"]\n"),
            "run.toml:2:12: error: bad value [\"mlflow\", \"tensorbord\"] for 'trackers' in [logging]\n"
            "  2 | trackers = [\"mlflow\", \"tensorbord\"]\n"
            "    |            ^~~~~~~~~~~~~~~~~~~~~~~~ must be an array of \"tensorboard\", \"mlflow\"\n");
  EXPECT_EQ(
      report_of("[logging]\nmlflow_tracking_uri = \"file:mlruns\"\n"),
      "run.toml:2:23: error: bad value \"file:mlruns\" for 'mlflow_tracking_uri' in [logging]\n"
      "  2 | mlflow_tracking_uri = \"file:mlruns\"\n"
      "    |                       ^~~~~~~~~~~~~ must begin with http:// or https://; user and password are "
      "$MLFLOW_TRACKING_USERNAME and $MLFLOW_TRACKING_PASSWORD\n");
  EXPECT_NE(report_of("[logging]\nmlflow_tracking_uri = \"https://me:secret@mlflow.lab\"\n"), "");
}

TEST_F(Messages, SayHowToWriteNnodes) {
  EXPECT_EQ(
      report_of("[launch]\nnnodes = \"4:2\"\n"),
      "run.toml:2:10: error: bad value \"4:2\" for 'nnodes' in [launch]\n"
      "  2 | nnodes = \"4:2\"\n"
      "    |          ^~~~~ must be a number of nodes, such as 2, a range, such as \"2:4\", or one with "
      "spares, such as \"4+1\"\n");
  for (const std::string nodes : {"0", "-1", "4097", "\"\"", "\"2:\"", "\":2\"", "\"two\"", "\"1:2:3\"",
                                  "\"2+\"", "\"2+0\"", "\"2:4+1\"", "\"4000+100\"", "2.0", "true"})
    EXPECT_NE(report_of("[launch]\nnnodes = " + nodes + "\n"), "") << nodes;
  for (const std::string nodes : {"1", "2", "\"2\"", "\"2:4\"", "\"3:3\"", "\"4+1\""})
    EXPECT_EQ(report_of("[launch]\nnnodes = " + nodes + "\n"), "") << nodes;
}

TEST_F(Messages, SayWhatAValueMustBe) {
  EXPECT_EQ(
      report_of("[launch]\n"
                "processes_per_node = \"2\"\n"
                "grace_period_seconds = -0.5\n"
                "omp_num_threads = 0\n"
                "[ddp]\n"
                "bucket_cap_mb = 2.5\n"
                "static_graph = 1\n"
                "[training]\n"
                "seed = 1979-01-01\n"
                "max_steps = [1]\n"
                "[logging]\n"
                "level = \"inof\"\n"
                "dir = \"\"\n"),
      "run.toml:2:22: error: bad value \"2\" for 'processes_per_node' in [launch]\n"
      "  2 | processes_per_node = \"2\"\n"
      "    |                      ^~~ must be an integer from 1 to 4096, or \"auto\"; write 2 without the "
      "quotes\n"
      "run.toml:3:24: error: bad value -0.5 for 'grace_period_seconds' in [launch]\n"
      "  3 | grace_period_seconds = -0.5\n"
      "    |                        ^~~~ must be a number, at least 0\n"
      "run.toml:4:19: error: bad value 0 for 'omp_num_threads' in [launch]\n"
      "  4 | omp_num_threads = 0\n"
      "    |                   ^ must be an integer from 1 to 65536, or \"auto\"\n"
      "run.toml:6:17: error: bad value 2.5 for 'bucket_cap_mb' in [ddp]\n"
      "  6 | bucket_cap_mb = 2.5\n"
      "    |                 ^~~ must be an integer from 1 to 1048576, or \"auto\"\n"
      "run.toml:7:16: error: bad value 1 for 'static_graph' in [ddp]\n"
      "  7 | static_graph = 1\n"
      "    |                ^ must be true or false\n"
      "run.toml:9:8: error: bad value for 'seed' in [training]: a date\n"
      "  9 | seed = 1979-01-01\n"
      "    |        ^~~~~~~~~~ must be an integer, at least 0, or \"none\"\n"
      "run.toml:10:13: error: bad value for 'max_steps' in [training]: an array\n"
      "  10 | max_steps = [1]\n"
      "     |             ^~~ must be an integer, at least 1, or \"none\"\n"
      "run.toml:12:9: error: bad value \"inof\" for 'level' in [logging]\n"
      "  12 | level = \"inof\"\n"
      "     |         ^~~~~~ must be one of \"debug\", \"info\", \"warning\", \"error\"; did you mean "
      "\"info\"?\n"
      "run.toml:13:7: error: bad value \"\" for 'dir' in [logging]\n"
      "  13 | dir = \"\"\n"
      "     |       ^~ must be the name of a folder, such as \"hookline-runs\"\n");
}

TEST_F(Messages, SayWhereTheOptionsOfAHookBelong) {
  EXPECT_EQ(
      report_of("[ddp]\ncomm_hook = \"power_sgd\"\nmatrix_approximation_rank = 2\n[comm_state_option]\n"),
      "run.toml:3:1: error: unknown key 'matrix_approximation_rank' in [ddp]\n"
      "  3 | matrix_approximation_rank = 2\n"
      "    | ^~~~~~~~~~~~~~~~~~~~~~~~~ it belongs in [ddp.comm_state_option]\n"
      "run.toml:4:2: error: unknown table [comm_state_option]\n"
      "  4 | [comm_state_option]\n"
      "    |  ^~~~~~~~~~~~~~~~~ did you mean [ddp.comm_state_option]?\n");
}

TEST_F(Messages, SayThatAValueIsNotATable) {
  EXPECT_EQ(report_of("ddp = 1\nlaunch = [1]\n[training.seed]\n"),
            "run.toml:1:1: error: 'ddp' is 1, not a table\n"
            "  1 | ddp = 1\n"
            "    | ^~~ write [ddp], and its keys in the lines below\n"
            "run.toml:2:1: error: 'launch' is an array, not a table\n"
            "  2 | launch = [1]\n"
            "    | ^~~~~~ write [launch], and its keys in the lines below\n"
            "run.toml:3:11: error: bad value for 'seed' in [training]: a table\n"
            "  3 | [training.seed]\n"
            "    |           ^~~~ must be an integer, at least 0, or \"none\"\n");
}

TEST_F(Messages, ReportSyntaxErrorsBesideAllOthers) {
  EXPECT_EQ(report_of("[ddp]\n"
                      "comm_hook = fp16\n"
                      "bucket_cap_mb = 99999999999999999999\n"
                      "static_graph = True\n"
                      "dmi = 0\n"
                      "[training]\n"
                      "max_steps\n"
                      "seed = \"abc\n"
                      "seed = -1\n"),
            "run.toml:2:13: error: 'fp16' is not a TOML value\n"
            "  2 | comm_hook = fp16\n"
            "    |             ^~~~ a string needs quotes: \"fp16\"\n"
            "run.toml:3:17: error: the number 99999999999999999999 is too large\n"
            "  3 | bucket_cap_mb = 99999999999999999999\n"
            "    |                 ^~~~~~~~~~~~~~~~~~~~ an integer has 64 bits\n"
            "run.toml:4:16: error: 'True' is not a TOML value\n"
            "  4 | static_graph = True\n"
            "    |                ^~~~ write true\n"
            "run.toml:5:1: error: unknown key 'dmi' in [ddp]\n"
            "  5 | dmi = 0\n"
            "    | ^~~ did you mean 'dim'?\n"
            "run.toml:7:10: error: '=' is missing\n"
            "  7 | max_steps\n"
            "    |          ^ write KEY = VALUE\n"
            "run.toml:8:12: error: not valid TOML: invalid string format\n"
            "  8 | seed = \"abc\n"
            "    |            ^ expected \"\n"
            "run.toml:9:8: error: bad value -1 for 'seed' in [training]\n"
            "  9 | seed = -1\n"
            "    |        ^~ must be an integer, at least 0, or \"none\"\n");
}

TEST_F(Messages, ReportDuplicatesAndContinue) {
  EXPECT_EQ(report_of("[ddp]\ndim = 0\ndim = 0\n[training]\nseed = 1\n[ddp]\ncom_wrapper = \"fp16\"\n"),
            "run.toml:3:1: error: key 'dim' is given twice\n"
            "  3 | dim = 0\n"
            "    | ^~~ the first is in line 2: keep one of them\n"
            "run.toml:6:2: error: table [ddp] is given twice\n"
            "  6 | [ddp]\n"
            "    |  ^~~ the first is in line 1: put the keys of both there\n"
            "run.toml:7:1: error: unknown key 'com_wrapper' in [ddp]\n"
            "  7 | com_wrapper = \"fp16\"\n"
            "    | ^~~~~~~~~~~ did you mean 'comm_wrapper'?\n");
}

TEST_F(Messages, CountColumnsInCharacters) {
  EXPECT_EQ(report_of("[logging]\ndir = \"größe\"\nlevel = \"größe\"  # größe\n"),
            "run.toml:3:9: error: bad value \"größe\" for 'level' in [logging]\n"
            "  3 | level = \"größe\"  # größe\n"
            "    |         ^~~~~~~ must be one of \"debug\", \"info\", \"warning\", \"error\"\n");
}

TEST_F(Messages, LocateKeysInEveryTomlForm) {
  EXPECT_EQ(report_of("ddp.dmi = 1\n\"training\" . 'sed' = 1\nlogging = { dri = \"]\" }\n"),
            "run.toml:1:5: error: unknown key 'dmi' in [ddp]\n"
            "  1 | ddp.dmi = 1\n"
            "    |     ^~~ did you mean 'dim'?\n"
            "run.toml:2:14: error: unknown key 'sed' in [training]\n"
            "  2 | \"training\" . 'sed' = 1\n"
            "    |              ^~~~~ did you mean 'seed'?\n"
            "run.toml:3:13: error: unknown key 'dri' in [logging]\n"
            "  3 | logging = { dri = \"]\" }\n"
            "    |             ^~~ did you mean 'dir'?\n");
}

TEST_F(Messages, RefuseTextThatIsNotUtf8) {
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_LOGGING__DIR", "x\xff"}}),
            "HOOKLINE_LOGGING__DIR: error: bad value \"x\\xff\" for 'dir' in [logging]\n"
            "  must be UTF-8, as config files are\n");
}

TEST_F(Messages, NameTheVariableOrTheFlag) {
  EXPECT_EQ(report_of("[ddp]\n",
                      {{"HOOKLINE_LAUNCH__OMP_NUM_THREADS", "two"},
                       {"HOOKLINE_DDP__STATIC_GRAPH", "True"},
                       {"HOOKLINE_DPD__COMM_HOOK", "fp16"},
                       {"HOOKLINE_X__Y", "1"},
                       {"HOOKLINE_COMM_HOOK", "fp16"}},
                      {{"ddp.com_hook", "fp16"}, {"seed", "1"}, {"x", "1"}, {"logging.level", "inof"}}),
            "HOOKLINE_DPD__COMM_HOOK: error: there is no such key\n"
            "  did you mean HOOKLINE_DDP__COMM_HOOK?\n"
            "HOOKLINE_X__Y: error: there is no such key\n"
            "  a variable is HOOKLINE_, the table, two underscores and the key: "
            "HOOKLINE_LAUNCH__PROCESSES_PER_NODE\n"
            "HOOKLINE_COMM_HOOK: warning: this variable has no effect\n"
            "  did you mean HOOKLINE_DDP__COMM_HOOK?\n"
            "--set ddp.com_hook: error: unknown key 'ddp.com_hook'\n"
            "  did you mean 'ddp.comm_hook'?\n"
            "--set seed: error: unknown key 'seed'\n"
            "  did you mean 'training.seed'?\n"
            "--set x: error: unknown key 'x'\n"
            "  a key is a table, a dot and a name: ddp.comm_hook\n"
            "HOOKLINE_LAUNCH__OMP_NUM_THREADS: error: bad value \"two\" for 'omp_num_threads' in [launch]\n"
            "  must be an integer from 1 to 65536, or \"auto\"\n"
            "HOOKLINE_DDP__STATIC_GRAPH: error: bad value \"True\" for 'static_graph' in [ddp]\n"
            "  must be true or false; did you mean true?\n"
            "--set logging.level: error: bad value \"inof\" for 'level' in [logging]\n"
            "  must be one of \"debug\", \"info\", \"warning\", \"error\"; did you mean info?\n");
}

}  // namespace
}  // namespace hookline
