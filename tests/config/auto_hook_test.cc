// comm_hook = "auto", and the settings of [ddp.auto].
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/checks/hook_settings.h"
#include "config/print.h"
#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AutoHook : public ::testing::Test {
 private:
  TempFolder folder_;
};

const std::string kChosen = "[ddp]\ncomm_hook = \"auto\"\n";

TEST_F(AutoHook, TakesItsTableFromFileEnvironmentAndCommandLine) {
  const Resolution resolution =
      resolve_text(kChosen + "[ddp.auto]\nallow = \"low_rank\"\nhooks = [\"fp16\", \"power_sgd\"]\n",
                   {{"HOOKLINE_DDP__AUTO__MAX_ERROR", "0.5"}}, {{"ddp.auto.hooks", "bf16"}});
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.ddp.comm_hook, "auto");
  EXPECT_EQ(resolution.config.auto_hook.allow, "low_rank");
  EXPECT_EQ(resolution.config.auto_hook.max_error, 0.5);
  EXPECT_THAT(resolution.config.auto_hook.hooks, ElementsAre("bf16"));
  EXPECT_THAT(resolution.config.ddp.comm_state_option, IsEmpty());
}

TEST_F(AutoHook, ReachesTheRanks) {
  const Resolution written = resolve_text(kChosen + "auto = {allow = \"low_rank\", max_error = 0.25}\n");
  std::ofstream("resolved.json") << to_json(written.config);
  const RunConfig read = read_resolved("resolved.json", Catalog::built_in());
  EXPECT_EQ(read.ddp.comm_hook, "auto");
  EXPECT_EQ(read.auto_hook.allow, "low_rank");
  EXPECT_EQ(read.auto_hook.max_error, 0.25);
  EXPECT_EQ(read.origins.at("ddp.auto.allow").where, "run.toml:3:9");
}

TEST_F(AutoHook, RefusesAWrapper) {
  EXPECT_EQ(report_of(kChosen + "comm_wrapper = \"bf16\"\n"),
            "run.toml:3:16: error: comm_wrapper \"bf16\" over comm_hook \"auto\" does not work\n"
            "  3 | comm_wrapper = \"bf16\"\n"
            "    |                ^~~~~~ auto chooses the wrapper, too: leave it out, or name a hook\n");
}

TEST_F(AutoHook, RefusesAScope) {
  EXPECT_EQ(report_of(kChosen + "comm_scope = \"between_hosts\"\n"),
            "run.toml:3:14: error: comm_scope \"between_hosts\" does not work with comm_hook \"auto\"\n"
            "  3 | comm_scope = \"between_hosts\"\n"
            "    |              ^~~~~~~~~~~~~~~ auto tries its hook between hosts by itself: leave "
            "comm_scope out, or "
            "name a hook\n");
}

TEST_F(AutoHook, WarnsOfARunThatMayEndBeforeTheChoice) {
  EXPECT_EQ(report_of(kChosen + "[training]\nmax_steps = 36\n"),
            "run.toml:4:13: warning: max_steps 36 may end the run before a hook is chosen\n"
            "  4 | max_steps = 36\n"
            "    |             ^~ comm_hook \"auto\" needs up to 36 steps before its first choice, and then "
            "more with each hook that it tries: set max_steps to 300 or more, or name a hook\n");
  EXPECT_EQ(report_of(kChosen + "[training]\nmax_steps = 37\n"), "");
}

TEST_F(AutoHook, RefusesAShardedOptimizer) {
  EXPECT_EQ(
      report_of(kChosen + "shard_optimizer = true\n"),
      "run.toml:2:13: error: shard_optimizer does not work with comm_hook \"auto\"\n"
      "  2 | comm_hook = \"auto\"\n"
      "    |             ^~~~~~ a sharded optimizer keeps the hook that it begins with: name a hook, or "
      "leave shard_optimizer out; ddp.shard_optimizer is set at run.toml:3:1, ddp.comm_hook at "
      "run.toml:2:1\n");
}

TEST_F(AutoHook, WarnsThatHookOptionsHaveNoEffect) {
  EXPECT_EQ(
      report_of(kChosen + "comm_state_option.warm_start = true\n"),
      "run.toml:3:19: warning: 'warm_start' has no effect\n"
      "  3 | comm_state_option.warm_start = true\n"
      "    |                   ^~~~~~~~~~ comm_hook \"auto\" chooses the options of its hook, too: name a "
      "hook, or leave this option out\n");
}

TEST_F(AutoHook, WarnsThatItsTableHasNoEffectOnANamedHook) {
  EXPECT_EQ(report_of("[ddp]\ncomm_hook = \"fp16\"\n[ddp.auto]\nallow = \"half\"\n"),
            "run.toml:4:1: warning: 'allow' has no effect\n"
            "  4 | allow = \"half\"\n"
            "    | ^~~~~ [ddp.auto] is for comm_hook = \"auto\", and comm_hook is \"fp16\"\n");
}

std::string report_of_hooks(const std::string& lines) { return report_of(kChosen + "[ddp.auto]\n" + lines); }

TEST_F(AutoHook, RefusesHooksThatCanNotBeChosen) {
  const auto refused = [](const std::string& hook, const std::string& why) {
    const std::string line = "hooks = [\"" + hook + "\"]";
    return "run.toml:4:9: error: hook \"" + hook + "\" in 'hooks' of [ddp.auto] can't be chosen\n  4 | " +
           line + "\n    |         " + "^" + std::string(hook.size() + 3, '~') + " " + why + "\n";
  };
  const auto expect_refused = [&](const std::string& hook, const std::string& why) {
    EXPECT_EQ(report_of_hooks("hooks = [\"" + hook + "\"]\n"), refused(hook, why));
  };
  expect_refused("power_sdg", "there is no such hook; did you mean \"power_sgd\"?");
  expect_refused("zzzzzz", "there is no such hook: see `hookline hooks list`");
  expect_refused("no", "training without a hook is always considered: leave it out");
  expect_refused("noop", "it does not average gradients: leave it out");
  expect_refused("power_sgd",
                 "it is low_rank, and allow is \"half\": leave it out, or set allow = \"low_rank\"");
}

std::string link_in(const std::string& text, const Variables& variables = {}) {
  const Resolution resolution = resolve_text(kChosen + "[ddp.auto]\n" + text, variables);
  EXPECT_EQ(resolution.report(), "");
  return resolution.config.auto_hook.link;
}

TEST_F(AutoHook, TakesALinkByItsSpeedAndLatency) {
  EXPECT_EQ(link_in(""), "auto");
  EXPECT_EQ(link_in("link = \"auto\"\n"), "auto");
  EXPECT_EQ(link_in("link = \"2.5Gbit,200us\"\n"), "2500mbit,0.2ms");
  EXPECT_EQ(link_in("link = \"2500mbit,0.2ms\"\n"), "2500mbit,0.2ms") << "as ranks read it";
}

const std::string kReport = R"({"links": [{"same_node": true, "latency_seconds": 1, "bytes_per_second": 5},)"
                            R"({"same_node": false, "latency_seconds": 0.0001, "bytes_per_second": 25e6},)"
                            R"({"same_node": false, "latency_seconds": 0.0003, "bytes_per_second": 50e6}]})";

TEST_F(AutoHook, TakesTheSlowestLinkOfAReport) {
  TempFolder::write("link.json", kReport);
  EXPECT_EQ(link_in("link = \"link.json\"\n"), "200mbit,0.3ms");
  EXPECT_EQ(link_in("", {{"HOOKLINE_DDP__AUTO__LINK", "./link.json"}}), "200mbit,0.3ms");
}

TEST_F(AutoHook, FindsAReportBesideTheConfigThatNamesIt) {
  const std::string folder = "2x2/s";  // which is not a speed
  std::filesystem::create_directories(folder);
  TempFolder::write(folder + "/link.json", kReport);
  TempFolder::write(folder + "/run.toml", kChosen + "[ddp.auto]\nlink = \"link.json\"\n");
  Sources sources;
  sources.file = folder + "/run.toml";
  const Resolution resolution = resolve(sources, Catalog::built_in());
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.auto_hook.link, "200mbit,0.3ms");
}

TEST_F(AutoHook, ReadsNoReportForANamedHookOrTheTestThatMakesIt) {
  EXPECT_EQ(
      resolve_text(kChosen + "[ddp.auto]\nlink = \"none.json\"\n", {}, {{"ddp.comm_hook", "fp16"}}).ok(),
      true);
  TempFolder::write("run.toml", kChosen + "[ddp.auto]\nlink = \"none.json\"\n");
  Sources sources;
  sources.file = "run.toml";
  sources.reads_link_report = false;
  EXPECT_EQ(resolve(sources, Catalog::built_in()).report(), "");
}

TEST_F(AutoHook, RefusesTextsThatNameNoLink) {
  const auto expect_refused = [](const std::string& link, const std::string& what, const std::string& why) {
    EXPECT_EQ(report_of_hooks("link = \"" + link + "\"\n"),
              "run.toml:4:8: error: bad value for 'link' in [ddp.auto]: '" + link + "' " + what +
                  "\n  4 | link = \"" + link + "\"\n    |        ^" + std::string(link.size() + 1, '~') +
                  " " + why + "\n");
  };
  expect_refused("fast", "does not describe a network",
                 "write speed and latency, as in 1gbit,0.2ms, or a file whose name ends in .json");
  expect_refused("125MB/s", "is not a speed", "write one as in 100mbit or 10gbit");
  expect_refused("1gbit,3", "has no valid latency after the comma",
                 "write it in us, ms or s, as in 1gbit,0.2ms");
  expect_refused("none.json", "can't be read", "No such file or directory");
  TempFolder::write("other.json", "[]");
  expect_refused("other.json", "is not a report of hookline test",
                 "make one with hookline test --json, or write 1gbit,0.2ms");
}

TEST_F(AutoHook, WarnsOfALinkWithoutALatency) {
  EXPECT_EQ(report_of_hooks("link = \"1gbit\"\n"),
            "run.toml:4:8: warning: link '1gbit' in [ddp.auto] names no latency\n"
            "  4 | link = \"1gbit\"\n"
            "    |        ^~~~~~~ predictions assume 0 s, which is too little between hosts; add it, as in "
            "1gbit,0.2ms\n");
}

TEST_F(AutoHook, KnowsItsTableAmongTheKeysOfDdp) {
  EXPECT_THAT(report_of(kChosen + "[ddp.autos]\nallow = \"half\"\n"), HasSubstr("did you mean 'auto'?"));
  EXPECT_THAT(report_of(kChosen + "auto = 3\n"), HasSubstr("error: 'ddp.auto' is 3, not a table\n"));
  EXPECT_THAT(report_of_hooks("alow = \"half\"\n"), HasSubstr("unknown key 'alow' in [ddp.auto]\n"));
}

std::vector<std::string> names_for(const AutoHookConfig& wanted,
                                   const Catalog& catalog = Catalog::built_in()) {
  std::vector<std::string> names;
  for (const HookSetting& each : settings_for(wanted, catalog)) names.push_back(each.name);
  return names;
}

HookRow row_of(const std::string& name, Exactness exactness) {
  HookRow row;
  row.name = name;
  row.summary = "A hook.";
  row.source = row.parity = "none";
  row.exactness = exactness;
  return row;
}

TEST(HookSettings, ListPermittedHooksMostExactFirst) {
  EXPECT_THAT(names_for({"lossless"}), IsEmpty());
  EXPECT_THAT(names_for({"half"}), ElementsAre("fp16", "bf16"));
  EXPECT_THAT(
      names_for({"low_rank"}),
      ElementsAre("fp16", "bf16", "power_sgd(rank=4)", "power_sgd(rank=4) in fp16", "power_sgd(rank=2)",
                  "power_sgd(rank=2) in fp16", "power_sgd(rank=1)", "power_sgd(rank=1) in fp16"));
  EXPECT_THAT(names_for({"half", {}, {"allreduce", "powerSGD"}}), ElementsAre("allreduce"));
  EXPECT_THAT(names_for({"low_rank", {}, {"batched_power_sgd", "bf16"}}),
              Contains("batched_power_sgd(rank=1)"));
}

TEST(HookSettings, CanBeBuilt) {
  const Catalog catalog = Catalog::built_in();
  for (const HookSetting& each : settings_for({"low_rank"}, catalog)) {
    const HookRow* row = catalog.find_hook(each.hook);
    ASSERT_TRUE(row) << each.name;
    for (const auto& [name, value] : each.options) {
      const auto option = std::find_if(row->options.begin(), row->options.end(),
                                       [&](const OptionRow& known) { return known.name == name; });
      ASSERT_NE(option, row->options.end()) << name;
      std::string problem;
      EXPECT_TRUE(check_value(*option, value, problem)) << problem;
    }
  }
}

TEST(HookSettings, IncludeAHookOfUnstatedExactnessOnlyByName) {
  Catalog catalog = Catalog::built_in();
  catalog.add(row_of("mine", Exactness::unstated));
  catalog.add(row_of("ours", Exactness::half));
  EXPECT_THAT(names_for({"half"}, catalog), ElementsAre("fp16", "bf16", "ours"));
  EXPECT_THAT(names_for({"half", {}, {"mine", "fp16"}}, catalog), ElementsAre("fp16", "mine"));
}

TEST(Catalog, ReservesTheNameAuto) {
  try {
    Catalog().add(row_of("auto", Exactness::half));
    FAIL() << "no error";
  } catch (const CatalogError& error) {
    EXPECT_STREQ(
        error.what(),
        "hook 'auto': comm_hook = \"auto\" makes hookline choose a hook; give this one another name");
  }
}

}  // namespace
}  // namespace hookline
