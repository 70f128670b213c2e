// `hookline hooks`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_hookline.h"
#include "hooks/catalog/catalog.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::ProcessResult;
using testing::Sandbox;

TEST(HooksList, ShowsEveryHookAndWrapper) {
  const Catalog catalog = Catalog::built_in();
  const ProcessResult result = Sandbox().run({"hooks", "list"});
  EXPECT_EQ(result.exit_code, 0);
  for (const HookRow& row : catalog.hooks()) {
    EXPECT_THAT(result.out, HasSubstr("\n  " + row.name));
    EXPECT_THAT(result.out, HasSubstr("  " + row.summary + "\n"));
  }
  for (const WrapperRow& row : catalog.wrappers())
    EXPECT_THAT(result.out, HasSubstr("  " + row.summary + "\n"));
}

TEST(HooksList, PrintsJson) {
  const ProcessResult result = Sandbox().run({"hooks", "list", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document.at("hooks").size(), Catalog::built_in().hooks().size());
  EXPECT_EQ(document.at("wrappers").at(1).at("dtype"), "float16");
}

TEST(HooksList, IncludesTheHooksOfAProgram) {
  const ProcessResult result = Sandbox().run({"hooks", "list", "--program", PROGRAM_WITH_HOOK});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\n  sample_hook, sample"));
}

TEST(HooksList, IncludesTheHooksOfPlugins) {
  const std::string plugin = ROWS_ONLY_FOLDER "/sample_plugin.so";
  const ProcessResult result = Sandbox().run({"hooks", "list", "--plugin", plugin});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\n  plugged "));
  const ProcessResult described = Sandbox().run({"hooks", "describe", "plugged", "--plugin", plugin});
  EXPECT_THAT(described.out, HasSubstr("\n  plug-in      " + plugin + "\n"));
  EXPECT_THAT(described.out, HasSubstr("\n  strength = 0.5\n"));

  const ProcessResult broken = Sandbox().run({"hooks", "list", "--plugin", "libmine.so"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("plug-in 'libmine.so' is not there: "));
}

TEST(HooksDescribe, PrintsTheHookAndItsOptions) {
  const ProcessResult result = Sandbox().run({"hooks", "describe", "sample", "--program", PROGRAM_WITH_HOOK});
  EXPECT_EQ(result.out, R"(sample_hook
  Clips gradients, then averages them.

  also called  sample
  wrapper      yes: comm_wrapper changes the precision it works in
  matches      none
  source       a test

Options ([ddp.comm_state_option]), with their defaults:
  max_norm = 1.0  # units
      Largest norm left alone.
      Accepts a number, at least 0.
)");
  EXPECT_EQ(result.exit_code, 0);
}

TEST(HooksDescribe, PrintsEveryOptionOfPowerSgd) {
  const ProcessResult result = Sandbox().run({"hooks", "describe", "power_sgd"});
  EXPECT_EQ(result.exit_code, 0);
  const Catalog catalog = Catalog::built_in();
  for (const OptionRow& option : catalog.find_hook("power_sgd")->options) {
    EXPECT_THAT(result.out, HasSubstr("\n  " + option.name + " = " + to_text(option.default_value)));
    EXPECT_THAT(result.out, HasSubstr("\n      " + option.help + "\n"));
  }
}

TEST(HooksDescribe, PrintsJsonThatTheCatalogReads) {
  const ProcessResult result = Sandbox().run({"hooks", "describe", "power_sgd", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(hook_row_from_json(result.out).options.size(),
            Catalog::built_in().find_hook("power_sgd")->options.size());
}

TEST(HooksDescribe, NamesTheNearestHook) {
  const ProcessResult result = Sandbox().run({"hooks", "describe", "power_sdg"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      ::testing::StartsWith(
          "hookline: error: no hook is called 'power_sdg'; did you mean 'power_sgd'?\n  hooks: no, "));
  EXPECT_EQ(result.out, "");
}

TEST(HooksDescribe, SaysWhatIsWrongWithTheProgram) {
  const ProcessResult result = Sandbox().run({"hooks", "describe", "fp16", "--program", "./nothing"});
  EXPECT_EQ(result.err, "hookline: error: program './nothing' does not exist\n");
  EXPECT_EQ(result.exit_code, 127);
}

}  // namespace
}  // namespace hookline
