// A rank reads back exactly what the launcher wrote: every value with its type and origin.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "config/print.h"
#include "config/schema/schema.h"
#include "config/starting_file.h"
#include "tests/config/config_fixture.h"
#include "tests/support/sanitized.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;

class RoundTrip : public ::testing::Test {
 protected:
  static RunConfig again(const RunConfig& config, const Catalog& catalog = Catalog::built_in()) {
    TempFolder::write("resolved.json", to_json(config));
    return read_resolved("resolved.json", catalog);
  }

  static void expect_same(const RunConfig& a, const RunConfig& b) {
    for (const KeyRow& row : schema()) EXPECT_EQ(row.get(a), row.get(b)) << row.key();
    EXPECT_EQ(a.ddp.comm_state_option, b.ddp.comm_state_option);
    ASSERT_EQ(a.origins.size(), b.origins.size());
    for (const auto& [key, origin] : a.origins) {
      ASSERT_EQ(b.origins.count(key), 1U) << key;
      EXPECT_EQ(origin.kind, b.origins.at(key).kind) << key;
      EXPECT_EQ(origin.where, b.origins.at(key).where) << key;
    }
  }

 private:
  TempFolder folder_;
};

/// Values that the row accepts: its default, its bounds, its words.
std::vector<OptionValue> values_of(const OptionRow& row) {
  std::vector<OptionValue> values = {row.default_value};
  if (row.or_word) values.emplace_back(*row.or_word);
  for (const std::string& word : row.allowed) values.emplace_back(word);
  if (row.type == OptionType::texts) values.emplace_back(row.allowed);
  if (row.type == OptionType::boolean) values.insert(values.end(), {true, false});
  if (row.type == OptionType::integer)
    for (const std::int64_t value :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{4096}, std::int64_t{4294967295}, INT64_MAX})
      values.emplace_back(value);
  if (row.type == OptionType::number)
    for (const double value : {0.0, 0.1, 2.0, 1e-300, 1.7976931348623157e308}) values.emplace_back(value);
  std::vector<OptionValue> taken;
  std::string ignored;
  for (const OptionValue& value : values)
    if (const auto checked = check_value(row, value, ignored)) taken.push_back(*checked);
  return taken;
}

TEST_F(RoundTrip, KeepsEveryValueOfEveryKey) {
  int configs = 0;
  for (const KeyRow& row : schema()) {
    if (row.option.name == "comm_hook" || row.option.name == "comm_wrapper") continue;
    for (const OptionValue& value : values_of(row.option)) {
      const Resolution resolution =
          resolve_text("[" + row.table + "]\n" + row.option.name + " = " + to_text(value) + "\n");
      ASSERT_TRUE(resolution.ok()) << resolution.report();
      EXPECT_EQ(row.get(resolution.config), value);
      expect_same(resolution.config, again(resolution.config));
      ++configs;
    }
  }
  EXPECT_GT(configs, 50);
}

TEST_F(RoundTrip, KeepsEveryHookWithEveryWrapperAndOption) {
  const Catalog catalog = catalog_with_program_hook();
  int valid = 0;
  for (const HookRow& hook : catalog.hooks()) {
    for (const WrapperRow& wrapper : catalog.wrappers()) {
      std::vector<std::string> texts = {""};
      for (const OptionRow& option : hook.options)
        for (const OptionValue& value : values_of(option))
          texts.push_back(option.name + " = " + to_text(value) + "\n");
      for (const std::string& text : texts) {
        const Resolution resolution =
            resolve_text("[ddp]\ncomm_hook = \"" + hook.name + "\"\ncomm_wrapper = \"" + wrapper.name +
                             "\"\n[ddp.comm_state_option]\n" + text,
                         {}, {}, catalog);
        if (!resolution.ok()) continue;
        expect_same(resolution.config, again(resolution.config, catalog));
        ++valid;
      }
    }
  }
  EXPECT_GT(valid, 150);
}

/// Generates random configs with many keys; the sequence is reproducible.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::string config(const Catalog& catalog) {
    const HookRow& hook = catalog.hooks()[below(catalog.hooks().size())];
    const WrapperRow& wrapper = catalog.wrappers()[below(catalog.wrappers().size())];
    std::string text;
    for (const std::string& table : table_names()) {
      text += "[" + table + "]\n";
      if (table == "ddp")
        text += "comm_hook = \"" + hook.name + "\"\ncomm_wrapper = \"" + wrapper.name + "\"\n";
      for (const KeyRow& row : schema()) {
        const std::string& name = row.option.name;
        const bool is_set = name == "comm_hook" || name == "comm_wrapper";
        if (row.table != table || is_set || name == "plugins" || chance(2)) continue;
        text += name + " = " + to_text(value(row.option, row.form)) + "\n";
      }
    }
    text += std::string("[") + kHookOptionTable + "]\n";
    for (const OptionRow& option : hook.options)
      if (chance(2)) text += option.name + " = " + to_text(value(option, {})) + "\n";
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool chance(std::size_t in) { return below(in) == 0; }

  OptionValue value(const OptionRow& row, const TextForm& form) {
    if (row.or_word && chance(4)) return *row.or_word;
    if (row.name == "link") return std::string(chance(2) ? kMeasuredLink : "2.5gbit,0.2ms");
    if (row.type == OptionType::texts && !row.allowed.empty())
      return std::vector<std::string>(below(3), row.allowed[below(row.allowed.size())]);
    if (!row.allowed.empty()) return row.allowed[below(row.allowed.size())];
    const double least = row.at_least.value_or(-1e9), most = row.at_most.value_or(1e9);
    const double between = least + (most - least) * static_cast<double>(below(1001)) / 1000;
    switch (row.type) {
      case OptionType::boolean:
        return chance(2);
      case OptionType::integer:
        return static_cast<std::int64_t>(chance(2) ? least + static_cast<double>(below(5)) : between);
      case OptionType::number:
        return chance(2) ? least : between;
      case OptionType::text:
        return text(form);
      case OptionType::texts:
        return std::vector<std::string>(below(3), text({}));
    }
    return false;
  }

  std::string text(const TextForm& form) {
    static const std::vector<std::string> words = {
        "a",   "b c", "\"",      "\\",         "#",    "\n",  "\t",  "\u00e9",
        "'''", "=",   "[x]",     "2:4",        "4+1",  "3-5", "all", "10.0.0.1",
        "0",   "12",  "${rank}", "[${host}] ", "\x7f", "1,2", "no",  "http://10.0.0.1:5000/\u00e9"};
    for (int attempt = 0; attempt < 1000; ++attempt) {
      std::string result;
      for (std::size_t count = below(3) + (attempt > 0); count > 0; --count)
        result += words[below(words.size())];
      if (!form.fits || form.fits(result)) return result;
    }
    ADD_FAILURE() << "none of a thousand texts has the form: " << form.note;
    return "";
  }

  std::mt19937 random_;
};

TEST_F(RoundTrip, KeepsGeneratedConfigs) {
  const Catalog catalog = catalog_with_program_hook();
  Generator generator(11);
  int valid = 0;
  constexpr int kConfigs = testing::kSanitized ? 100 : 1000;
  for (int i = 0; i < kConfigs && !HasFailure(); ++i) {
    const std::string text = generator.config(catalog);
    SCOPED_TRACE(text);
    const Resolution resolution = resolve_text(text, {}, {}, catalog);
    if (!resolution.ok()) continue;
    ++valid;
    expect_same(resolution.config, again(resolution.config, catalog));
    // The file that the wizard would write means the same.
    const Resolution chosen = resolve_text(chosen_file(resolution.config), {}, {}, catalog);
    EXPECT_TRUE(chosen.ok()) << chosen.report();
    for (const KeyRow& row : schema())
      EXPECT_EQ(row.get(chosen.config), row.get(resolution.config)) << row.key();
    EXPECT_EQ(chosen.config.ddp.comm_state_option, resolution.config.ddp.comm_state_option);
  }
  EXPECT_GT(valid, kConfigs / 4);
}

TEST_F(RoundTrip, KeepsOriginsOfEveryKind) {
  const Resolution resolution = resolve_text(
      "[ddp]\ncomm_hook = \"power_sgd\"\ncomm_state_option = { random_seed = 3 }\n",
      {{"HOOKLINE_DDP__COMM_STATE_OPTION__WARM_START", "false"}}, {{"logging.dir", "# from file x"}});
  ASSERT_EQ(resolution.report(), "");
  const RunConfig copy = again(resolution.config);
  expect_same(resolution.config, copy);
  EXPECT_EQ(copy.logging.dir, "# from file x");
  EXPECT_EQ(copy.origins.at("logging.dir").where, "--set logging.dir");
  EXPECT_EQ(copy.origins.at("ddp.comm_state_option.random_seed").where, "run.toml:3:23");
}

TEST_F(RoundTrip, KeepsStringsAndFileNamesWithSpecialCharacters) {
  const std::string name = "a \"b\"\n# c\\\x01.toml";
  TempFolder::write(name, "[logging]\ndir = \"\\\"# \\\\ \\u00e9 \\n\\t\\u0007'''\"\n");
  Sources sources;
  sources.file = name;
  const Resolution resolution = resolve(sources, Catalog::built_in());
  ASSERT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.logging.dir, "\"# \\ é \n\t\a'''");
  expect_same(resolution.config, again(resolution.config));
  const Resolution from_toml = resolve_text(to_toml(resolution.config));  // which people read
  EXPECT_TRUE(from_toml.ok()) << from_toml.report();
  EXPECT_EQ(from_toml.config.logging.dir, resolution.config.logging.dir);
}

TEST_F(RoundTrip, ResolvesAScriptsHookInTheProgram) {
  Sources sources;
  TempFolder::write("run.toml",
                    "[ddp]\ncomm_hook = \"program:clip\"\n[ddp.comm_state_option]\nmax_norm = 2\n");
  sources.file = "run.toml";
  const Resolution resolution = resolve(sources, Catalog::built_in());
  ASSERT_EQ(resolution.report(), "");
  const RunConfig copy = again(resolution.config, catalog_with_program_hook());
  EXPECT_EQ(copy.ddp.comm_hook, "clip");
  const OptionMap expected = {{"max_norm", 2.0}, {"label", std::string("a")}};
  EXPECT_EQ(copy.ddp.comm_state_option, expected);
}

/// The error of read_resolved for a file with these values, all with the origin run.toml:4:1.
std::string refusal_of(const nlohmann::json& tables, const Catalog& catalog = Catalog::built_in()) {
  const auto with_origins = [](const auto& self, const nlohmann::json& json) -> nlohmann::json {
    if (!json.is_object()) return {{"value", json}, {"origin", "file"}, {"where", "run.toml:4:1"}};
    nlohmann::json out = nlohmann::json::object();
    for (const auto& [name, child] : json.items()) out[name] = self(self, child);
    return out;
  };
  TempFolder::write("resolved.json", with_origins(with_origins, tables).dump());
  try {
    read_resolved("resolved.json", catalog);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(RoundTrip, RecognizesALauncherOfAnotherVersion) {
  EXPECT_EQ(
      refusal_of({{"launch", {{"warp_drive", true}}}}),
      "resolved.json: error: unknown key 'warp_drive' in [launch]\n"
      "the launcher that wrote this file and the library in this program are of different versions: build "
      "both from the same version\n");
}

TEST_F(RoundTrip, BlamesAnotherVersionForUnknownKeysButNotUnknownHooks) {
  const std::vector<nlohmann::json> of_another = {
      {{"ddp", {{"comm_hook_delay", 1}}}}, {{"hook", {{"name", 1}}}}, {{"ddp", {{"comm_wrapper", "fp9"}}}}};
  for (const nlohmann::json& json : of_another)
    EXPECT_THAT(refusal_of(json), HasSubstr("of different versions")) << json;
  const std::vector<nlohmann::json> mistakes = {
      {{"ddp", {{"comm_hook", "fp9"}}}},
      {{"ddp", {{"comm_hook", "power_sgd"}, {"comm_state_option", {{"rank", 2}}}}}}};
  for (const nlohmann::json& json : mistakes)
    EXPECT_THAT(refusal_of(json),
                ::testing::AllOf(HasSubstr("unknown "), ::testing::Not(HasSubstr("of different versions"))))
        << json;
}

TEST_F(RoundTrip, RefusesWhatTheLauncherDoesNotWrite) {
  const auto refusal = [](const std::string& text) -> std::string {
    TempFolder::write("resolved.json", text);
    try {
      read_resolved("resolved.json", Catalog::built_in());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const std::string start =
      "resolved.json: error: HOOKLINE_CONFIG does not name a config that this version's `hookline launch` "
      "wrote\n  ";
  const std::string end =
      "; start the program with the launcher of the hookline version that it was built with, or unset the "
      "variable\n";
  EXPECT_EQ(refusal("[]"), start + "the whole file is not an object" + end);
  EXPECT_EQ(refusal(R"({"launch": 1})"), start + "launch is not an object" + end);
  EXPECT_EQ(refusal(R"({"ddp": {"comm_state_option": []}})"),
            start + "ddp.comm_state_option is not an object" + end);
  EXPECT_EQ(refusal(R"({"ddp": {"plugins": ["x.so"]}})"),
            start + "ddp.plugins must have the members value, origin and where" + end);
  EXPECT_THAT(refusal(R"({"ddp": {"comm_hook": "fp16"}})"),
              ::testing::StartsWith(start + "ddp.comm_hook must have the members "));
  EXPECT_EQ(refusal(R"({"ddp": {"comm_hook": {"value": "fp16", "origin": "elsewhere", "where": ""}}})"),
            start + "ddp.comm_hook has an unknown origin: 'elsewhere'" + end);
  EXPECT_THAT(refusal("[launch]\nnnodes = 1\n"), ::testing::StartsWith(start));  // a user's TOML file
  EXPECT_THAT(refusal_of({{"logging", {{"dir", nullptr}}}}),
              HasSubstr("run.toml:4:1: error: bad value for 'dir' in [logging]: null\n  must be a string\n"));
}

TEST_F(RoundTrip, LetsTheRankRefuseWhatTheLauncherCouldNotCheck) {
  const nlohmann::json ddp = {{"comm_hook", "program:clip"}, {"comm_state_option", {{"max_nrm", 2}}}};
  EXPECT_EQ(refusal_of({{"ddp", ddp}}, catalog_with_program_hook()),
            "run.toml:4:1: error: unknown key 'max_nrm' in [ddp.comm_state_option]\n"
            "  not an option of clip; did you mean 'max_norm'?\n");
  EXPECT_THAT(refusal_of({{"ddp", ddp}}), HasSubstr("error: the program has no hook 'clip'"));
  EXPECT_THAT(
      [] { read_resolved("nowhere.json", Catalog::built_in()); },
      ::testing::ThrowsMessage<ConfigError>(
          "nowhere.json: error: the config of this launch, which HOOKLINE_CONFIG names, can't be read\n"
          "  'nowhere.json' can't be read: No such file or directory\n"));
}

TEST_F(RoundTrip, PrintsTomlWithOrigins) {
  const Resolution resolution =
      resolve_text("[ddp]\ncomm_hook = \"fp16\"\n", {}, {{"training.max_steps", "5"}});
  EXPECT_EQ(to_toml(resolution.config),
            "[launch]\n"
            "processes_per_node = \"auto\"      # default\n"
            "nnodes = \"1\"                     # default\n"
            "node_rank = \"auto\"               # default\n"
            "omp_num_threads = \"auto\"         # default\n"
            "device = \"auto\"                  # default\n"
            "backend = \"auto\"                 # default\n"
            "grace_period_seconds = 10.0      # default\n"
            "binding = \"none\"                 # default\n"
            "isolation = \"none\"               # default\n"
            "max_restarts = 0                 # default\n"
            "restart = \"curable\"              # default\n"
            "restart_delay_seconds = 1.0      # default\n"
            "early_exit_seconds = 30.0        # default\n"
            "stall_timeout_seconds = 0.0      # default\n"
            "stall_stacks = false             # default\n"
            "join_timeout_seconds = 300.0     # default\n"
            "peer_timeout_seconds = 10.0      # default\n"
            "\n"
            "[rendezvous]\n"
            "main_address = \"\"                # default\n"
            "main_port = 29500                # default\n"
            "run_id = \"auto\"                  # default\n"
            "last_call_seconds = 5.0          # default\n"
            "node_timeout_seconds = 5.0       # default\n"
            "token_file = \"\"                  # default\n"
            "insecure = false                 # default\n"
            "\n"
            "[ddp]\n"
            "dim = 0                          # default\n"
            "broadcast_buffers = true         # default\n"
            "bucket_cap_mb = \"auto\"           # default\n"
            "find_unused_parameters = false   # default\n"
            "check_reduction = false          # default\n"
            "gradient_as_bucket_view = false  # default\n"
            "static_graph = false             # default\n"
            "shard_optimizer = false          # default\n"
            "comm_hook = \"fp16\"               # from file run.toml:2:1\n"
            "comm_wrapper = \"no\"              # default\n"
            "comm_scope = \"all_ranks\"         # default\n"
            "plugins = []                     # default\n"
            "\n[ddp.auto]\n"
            "allow = \"half\"                   # default\n"
            "max_error = \"none\"               # default\n"
            "hooks = []                       # default\n"
            "link = \"auto\"                    # default\n"
            "\n"
            "[fsdp]\n"
            "sharding_strategy = \"no_shard\"   # default\n"
            "comm_hook = \"no\"                 # default\n"
            "\n"
            "[training]\n"
            "max_steps = 5                    # from command line --set training.max_steps\n"
            "gradient_accumulation_steps = 1  # default\n"
            "seed = \"none\"                    # default\n"
            "fused_optimizer = \"auto\"         # default\n"
            "checkpoint_every_steps = \"none\"  # default\n"
            "checkpoint_dir = \"checkpoints\"   # default\n"
            "checkpoint_keep_last = 3         # default\n"
            "checkpoint_async = false         # default\n"
            "resume = \"no\"                    # default\n"
            "record_gradients = \"\"            # default\n"
            "record_gradients_steps = 10      # default\n"
            "\n"
            "[logging]\n"
            "level = \"info\"                   # default\n"
            "dir = \"hookline-runs\"            # default\n"
            "status = \"auto\"                  # default\n"
            "status_interval_seconds = 60.0   # default\n"
            "show = \"all\"                     # default\n"
            "show_ranks = \"all\"               # default\n"
            "prefix_template = \"[${rank}] \"   # default\n"
            "trackers = []                    # default\n"
            "mlflow_tracking_uri = \"\"         # default\n"
            "mlflow_experiment = \"\"           # default\n");
}

TEST_F(RoundTrip, PrintsJsonWithOrigins) {
  const Resolution resolution =
      resolve_text("[ddp]\ncomm_hook = \"power_sgd\"\n", {{"HOOKLINE_TRAINING__SEED", "3"}});
  const auto json = nlohmann::json::parse(to_json(resolution.config));
  EXPECT_EQ(json["ddp"]["comm_hook"],
            nlohmann::json({{"value", "power_sgd"}, {"origin", "file"}, {"where", "run.toml:2:1"}}));
  EXPECT_EQ(json["training"]["seed"],
            nlohmann::json({{"value", 3}, {"origin", "environment"}, {"where", "HOOKLINE_TRAINING__SEED"}}));
  EXPECT_EQ(json["ddp"]["comm_state_option"]["min_compression_rate"],
            nlohmann::json({{"value", 2.0}, {"origin", "default"}, {"where", ""}}));
  for (const KeyRow& row : schema()) {
    std::string path = "/" + row.key();
    std::replace(path.begin(), path.end(), '.', '/');
    EXPECT_TRUE(json.contains(nlohmann::json::json_pointer(path))) << row.key();
  }
}

}  // namespace
}  // namespace hookline
