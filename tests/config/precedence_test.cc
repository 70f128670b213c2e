#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/schema/schema.h"
#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

class Precedence : public ::testing::Test {
 private:
  TempFolder folder_;
};

/// Tries every subset of the three sources. The file sets 2, the environment 3, the command line 4.
TEST_F(Precedence, IsCommandLineThenEnvironmentThenFileThenDefault) {
  for (int sources = 0; sources < 8; ++sources) {
    const bool in_file = sources & 1, in_environment = sources & 2, on_command_line = sources & 4;
    Variables variables;
    std::vector<std::pair<std::string, std::string>> sets;
    if (in_environment) variables.emplace_back("HOOKLINE_TRAINING__GRADIENT_ACCUMULATION_STEPS", "3");
    if (on_command_line) sets.emplace_back("training.gradient_accumulation_steps", "4");
    const Resolution resolution = resolve_text(
        std::string("[training]\n") + (in_file ? "gradient_accumulation_steps = 2\n" : ""), variables, sets);
    EXPECT_EQ(resolution.report(), "");
    EXPECT_EQ(resolution.config.training.gradient_accumulation_steps, on_command_line  ? 4
                                                                      : in_environment ? 3
                                                                      : in_file        ? 2
                                                                                       : 1);
    const Origin& origin = resolution.config.origins.at("training.gradient_accumulation_steps");
    EXPECT_EQ(origin.where, on_command_line  ? "--set training.gradient_accumulation_steps"
                            : in_environment ? "HOOKLINE_TRAINING__GRADIENT_ACCUMULATION_STEPS"
                            : in_file        ? "run.toml:2:1"
                                             : "");
    EXPECT_EQ(origin.kind, on_command_line  ? OriginKind::command_line
                           : in_environment ? OriginKind::environment
                           : in_file        ? OriginKind::file
                                            : OriginKind::default_value);
  }
}

TEST_F(Precedence, TakesBooleansForResume) {
  for (const auto& [given, expected] : {std::pair("true", "auto"), std::pair("false", "no")}) {
    const std::string in_file = std::string("[training]\nresume = ") + given + "\n";
    for (const Resolution& resolution :
         {resolve_text(in_file), resolve_text("[training]\n", {{"HOOKLINE_TRAINING__RESUME", given}}),
          resolve_text("[training]\n", {}, {{"training.resume", given}})}) {
      EXPECT_EQ(resolution.report(), "");
      EXPECT_EQ(resolution.config.training.resume, expected);
    }
  }
}

TEST_F(Precedence, ReadsValuesInQuotesBracketsAndBracesAsToml) {
  const Resolution resolution = resolve_text(
      "[ddp]\n", {{"HOOKLINE_LOGGING__TRACKERS", R"(["tensorboard", 'mlflow'])"}},
      {{"ddp",
        R"({ comm_hook = "power_sgd", comm_wrapper = 'fp16', comm_state_option = { matrix_approximation_rank = 4 } })"},
       {"ddp.comm_state_option", "{start_powerSGD_iter = 20}"},
       {"logging.mlflow_experiment", R"("[a], \"b\"")"}});
  EXPECT_EQ(resolution.report(), "");
  const RunConfig& config = resolution.config;
  EXPECT_EQ(config.logging.trackers, (std::vector<std::string>{"tensorboard", "mlflow"}));
  EXPECT_EQ(config.ddp.comm_hook, "power_sgd");
  EXPECT_EQ(config.ddp.comm_wrapper, "fp16");
  EXPECT_EQ(config.ddp.comm_state_option.at("matrix_approximation_rank"), OptionValue(std::int64_t{4}));
  EXPECT_EQ(config.ddp.comm_state_option.at("start_powerSGD_iter"), OptionValue(std::int64_t{20}));
  EXPECT_EQ(config.logging.mlflow_experiment, "[a], \"b\"");
  EXPECT_EQ(config.origins.at("ddp.comm_wrapper").where, "--set ddp");
}

TEST_F(Precedence, SaysWhatIsWrongWithATomlValue) {
  EXPECT_EQ(report_of("[ddp]\n", {}, {{"ddp", "{comm_hok = 'fp16'}"}}),
            "--set ddp: error: unknown key 'ddp.comm_hok'\n  did you mean 'ddp.comm_hook'?\n");
  EXPECT_THAT(report_of("[ddp]\n", {}, {{"dpd", "{comm_hook = 'fp16'}"}}),
              ::testing::StartsWith("--set dpd: error: unknown key 'dpd'\n"));
  EXPECT_EQ(report_of("[ddp]\n", {}, {{"ddp", "{comm_hook = fp16}"}}),
            "--set ddp: error: what is given for the table 'ddp' is not valid TOML\n"
            "  write it as {key = value, key = value}, with strings in quotes: ddp={name = \"text\"}\n");
  EXPECT_EQ(report_of("[ddp]\n", {}, {{"logging.trackers", "[mlflow]"}}),
            "--set logging.trackers: error: bad value \"[mlflow]\" for 'trackers' in [logging]\n"
            "  must be an array of \"tensorboard\", \"mlflow\"; write [\"a\", \"b\"] as in TOML, or a,b "
            "without brackets\n");
  EXPECT_EQ(report_of("[ddp]\n", {}, {{"launch.processes_per_node", "\"2\""}}),
            "--set launch.processes_per_node: error: bad value \"2\" for 'processes_per_node' in [launch]\n"
            "  must be an integer from 1 to 4096, or \"auto\"; write 2 without the quotes\n");
  EXPECT_THAT(
      report_of("[ddp]\n", {}, {{"training.max_steps", "{a=1}"}}),
      ::testing::StartsWith("--set training.max_steps: error: bad value for 'max_steps' in [training]"));
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_OF_ANOTHER_PROGRAM", "[1, 2]"}}), "") << "nobody's key";
}

TEST_F(Precedence, RefusesAnUnterminatedString) {
  EXPECT_EQ(report_of("[ddp]\n", {}, {{"logging.dir", "\"x"}}),
            "--set logging.dir: error: bad value \"\\\"x\" for 'logging.dir'\n"
            "  a value that begins with a quote must be a TOML string: end it with the same quote, or remove "
            "the quotes\n");
  EXPECT_THAT(report_of("[ddp]\n", {{"HOOKLINE_LOGGING__DIR", "'x' y"}}),
              ::testing::StartsWith("HOOKLINE_LOGGING__DIR: error: bad value \"'x' y\" for 'logging.dir'\n"
                                    "  a value that begins with a quote "));
  EXPECT_THAT(report_of("[ddp]\n", {}, {{"logging.dir", "'x'\nshow = 1"}}),
              ::testing::HasSubstr("bad value"));
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_OF_ANOTHER_PROGRAM", "\"x"}}), "") << "nobody's key";
  EXPECT_EQ(report_of("[ddp]\n", {}, {{"logging.dir", "the \"x"}}), "") << "begins without a quote";
}

TEST_F(Precedence, HoldsForTheHookItsWrapperAndItsOptions) {
  const std::string file =
      "[ddp]\ncomm_hook = \"fp16\"\ncomm_wrapper = \"no\"\ncomm_state_option.matrix_approximation_rank = 2\n";
  const Resolution resolution =
      resolve_text(file,
                   {{"HOOKLINE_DDP__COMM_HOOK", "powerSGD"},
                    {"HOOKLINE_DDP__COMM_STATE_OPTION__MATRIX_APPROXIMATION_RANK", "3"},
                    {"HOOKLINE_DDP__COMM_STATE_OPTION__START_POWERSGD_ITER", "20"}},
                   {{"ddp.comm_wrapper", "bf16"}, {"ddp.comm_state_option.start_powerSGD_iter", "30"}});
  EXPECT_EQ(resolution.report(), "");
  const RunConfig& config = resolution.config;
  EXPECT_EQ(config.ddp.comm_hook, "power_sgd");
  EXPECT_EQ(config.ddp.comm_wrapper, "bf16");
  EXPECT_EQ(config.ddp.comm_state_option.at("matrix_approximation_rank"), OptionValue(std::int64_t{3}));
  EXPECT_EQ(config.ddp.comm_state_option.at("start_powerSGD_iter"), OptionValue(std::int64_t{30}));
  EXPECT_EQ(config.origins.at("ddp.comm_hook").where, "HOOKLINE_DDP__COMM_HOOK");
  EXPECT_EQ(config.origins.at("ddp.comm_wrapper").where, "--set ddp.comm_wrapper");
  EXPECT_EQ(config.origins.at("ddp.comm_state_option.matrix_approximation_rank").kind,
            OriginKind::environment);
  EXPECT_EQ(config.origins.at("ddp.comm_state_option.start_powerSGD_iter").kind, OriginKind::command_line);
}

TEST_F(Precedence, RefusesTwoVariablesForOneKey) {
  const std::string both = "error: ddp.comm_hook is given twice: by ";
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_DDP__COMM_HOOK", "fp16"}, {"HOOKLINE_ddp__comm_hook", "bf16"}}),
            "HOOKLINE_ddp__comm_hook: " + both +
                "HOOKLINE_DDP__COMM_HOOK and by HOOKLINE_ddp__comm_hook\n  unset one of them\n");
  EXPECT_EQ(
      report_of("[ddp]\n", {{"HOOKLINE_DDP", "{comm_hook = \"fp16\"}"}, {"HOOKLINE_DDP__COMM_HOOK", "fp16"}}),
      "HOOKLINE_DDP__COMM_HOOK: " + both +
          "HOOKLINE_DDP and by HOOKLINE_DDP__COMM_HOOK\n  unset one of them\n");
  // execve() accepts duplicate variables.
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_DDP__COMM_HOOK", "bf16"}, {"HOOKLINE_DDP__COMM_HOOK", "fp16"}}),
            "HOOKLINE_DDP__COMM_HOOK: " + both + "HOOKLINE_DDP__COMM_HOOK\n  unset one of them\n");
  // Option names are lower-case in a variable's name but keep their spelling in a table.
  const std::string options = "HOOKLINE_DDP__COMM_STATE_OPTION", option = options + "__START_POWERSGD_ITER";
  EXPECT_EQ(report_of("[ddp]\ncomm_hook = \"power_sgd\"\n",
                      {{options, "{start_powerSGD_iter = 10}"}, {option, "20"}}),
            option + ": error: ddp.comm_state_option.start_powersgd_iter is given twice: by " + options +
                " and by " + option + "\n  unset one of them\n");
  EXPECT_EQ(report_of("[ddp]\n",
                      {{"HOOKLINE_DDP", "{comm_hook = \"fp16\"}"}, {"HOOKLINE_DDP__STATIC_GRAPH", "true"}}),
            "");
}

TEST_F(Precedence, StillChecksWhatIsOverridden) {
  EXPECT_THAT(
      report_of("[ddp]\ncomm_hook = \"nope\"\n[training]\nseed = -1\n", {{"HOOKLINE_TRAINING__SEED", "x"}},
                {{"ddp.comm_hook", "no"}, {"training.seed", "1"}}),
      AllOf(::testing::StartsWith("run.toml:2:13: error: unknown hook \"nope\"\n"),
            ::testing::EndsWith(" shared library in [ddp] plugins\n"
                                "run.toml:4:8: error: bad value -1 for 'seed' in [training]\n"
                                "  4 | seed = -1\n"
                                "    |        ^~ must be an integer, at least 0, or \"none\"\n"
                                "HOOKLINE_TRAINING__SEED: error: bad value \"x\" for 'seed' in [training]\n"
                                "  must be an integer, at least 0, or \"none\"\n")));
}

TEST_F(Precedence, LetsAStrongerSourceUnsetAValue) {
  const Resolution resolution = resolve_text("[training]\nseed = 7\n", {}, {{"training.seed", "none"}});
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.training.seed, std::nullopt);
}

TEST_F(Precedence, WarnsOfAVariableWithOneUnderscoreTooFew) {
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_DDP_COMM_HOOK", "fp16"},
                                  {"HOOKLINE_TRAINING_SEED", "3"},
                                  {"HOOKLINE_DDP_COMM_STATE_OPTION_START_POWERSGD_ITER", "3"}}),
            "HOOKLINE_DDP_COMM_HOOK: warning: this variable has no effect\n"
            "  did you mean HOOKLINE_DDP__COMM_HOOK?\n"
            "HOOKLINE_TRAINING_SEED: warning: this variable has no effect\n"
            "  did you mean HOOKLINE_TRAINING__SEED?\n"
            "HOOKLINE_DDP_COMM_STATE_OPTION_START_POWERSGD_ITER: warning: this variable has no effect\n"
            "  did you mean HOOKLINE_DDP__COMM_STATE_OPTION__START_POWERSGD_ITER?\n");
}

TEST_F(Precedence, IgnoresOtherHooklineVariables) {
  EXPECT_EQ(report_of("[ddp]\n", {{"HOOKLINE_CONFIG", "x"},
                                  {"HOOKLINE_RUN_DIR", "x"},
                                  {"HOOKLINE_TORCH", "x"},
                                  {"HOOKLINE_STORE_FD", "x"},
                                  {"HOOKLINE_LOG_LEVEL", "x"},
                                  {"HOOKLINE_SOMETHING", "x"},
                                  {"PATH", "x"},
                                  {"DDP__COMM_HOOK", "x"}}),
            "");
}

TEST_F(Precedence, ReadsEveryKeyFromItsVariableAndItsFlag) {
  for (const KeyRow& row : schema()) {
    // [ddp.auto] only takes effect with comm_hook = "auto".
    const std::string file = row.table == kAutoHookTable ? "[ddp]\ncomm_hook = \"auto\"\n" : "[ddp]\n";
    std::string variable = "HOOKLINE_" + row.table + "__" + row.option.name;
    if (const std::size_t dot = variable.find('.'); dot != variable.npos) variable.replace(dot, 1, "__");
    for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const OptionValue& value = row.option.default_value;
    const auto* word = std::get_if<std::string>(&value);
    const bool is_list = row.option.type == OptionType::texts;  // elements are separated by commas
    const std::string text = is_list ? "" : word ? *word : to_text(value);
    const Resolution from_variable = resolve_text(file, {{variable, text}});
    EXPECT_EQ(from_variable.report(), "") << variable;
    EXPECT_EQ(row.get(from_variable.config), value) << variable;
    EXPECT_EQ(from_variable.config.origins.at(row.key()).where, variable);
    const Resolution from_flag = resolve_text(file, {}, {{row.key(), text}});
    EXPECT_EQ(from_flag.report(), "") << row.key();
    EXPECT_EQ(from_flag.config.origins.at(row.key()).kind, OriginKind::command_line);
  }
}

TEST(Environment, HoldsHooklinesVariablesOnly) {
  ASSERT_EQ(setenv("HOOKLINE_DDP__COMM_HOOK", "a=b", 1), 0);
  const Variables variables = hookline_environment();
  unsetenv("HOOKLINE_DDP__COMM_HOOK");
  bool found = false;
  for (const auto& [name, value] : variables) {
    EXPECT_EQ(name.compare(0, 9, "HOOKLINE_"), 0) << name;
    if (name == "HOOKLINE_DDP__COMM_HOOK") found = value == "a=b";
  }
  EXPECT_TRUE(found);
}

TEST(Sources, MayBeEmpty) {
  const Resolution resolution = resolve(Sources{}, Catalog::built_in());
  EXPECT_EQ(resolution.report(), "");
  const RunConfig defaults;
  for (const KeyRow& row : schema()) {
    EXPECT_EQ(row.get(resolution.config), row.get(defaults));
    EXPECT_EQ(resolution.config.origins.at(row.key()).kind, OriginKind::default_value);
  }
}

}  // namespace
}  // namespace hookline
