// Plug-ins named by a config: their hooks, and errors in them.
#include <gmock/gmock.h>

#include "config/print.h"
#include "config_fixture.h"
#include "hooks/catalog/hook_rows.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kFolder = ROWS_ONLY_FOLDER;
const std::string kBuild = "torch 2.11.0, hookline 0.1.0";

std::string file(const std::string& name) { return kFolder + "/" + name + ".so"; }

/// The report for a [ddp] table, for a program built with kBuild.
std::string report_of_ddp(const std::string& ddp) {
  TempFolder::write("run.toml", "[ddp]\n" + ddp);
  Sources sources;
  sources.file = "run.toml";
  sources.program_build = kBuild;
  sources.allow_program_hooks = false;
  return resolve(sources, Catalog::built_in()).report();
}

std::string plugins(const std::string& name) { return "plugins = [\"" + file(name) + "\"]\n"; }

TEST(Plugins, BringHooksWithOptionsOfTheirOwn) {
  const TempFolder folder;
  const Resolution resolution =
      resolve_text("[ddp]\n" + plugins("sample_plugin") +
                   "comm_hook = \"plugged\"\n[ddp.comm_state_option]\nstrength = 2\n");
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.ddp.comm_hook, "plugged");
  EXPECT_EQ(std::get<double>(resolution.config.ddp.comm_state_option.at("strength")), 2.0);
  EXPECT_THAT(resolution.config.ddp.plugins, ElementsAre(file("sample_plugin")));
}

TEST(Plugins, HaveTheirOptionsChecked) {
  const TempFolder folder;
  EXPECT_EQ(report_of_ddp("plugins = [\"" + file("sample_plugin") +
                          "\"]\ncomm_hook = \"plugged\"\n[ddp.comm_state_option]\nstrenght = 2\n"),
            R"(run.toml:5:1: error: unknown key 'strenght' in [ddp.comm_state_option]
  5 | strenght = 2
    | ^~~~~~~~ not an option of plugged; did you mean 'strength'?
)");
}

TEST(Plugins, AreFoundRelativeToTheFileThatNamesThem) {
  const TempFolder folder;
  std::filesystem::create_directory("below");
  std::filesystem::copy_file(file("sample_plugin"), "below/libx.so");
  TempFolder::write("below/run.toml", "[ddp]\nplugins = [\"libx.so\"]\ncomm_hook = \"plugged\"\n");
  Sources sources;
  sources.file = "below/run.toml";
  const Resolution of_file = resolve(sources, Catalog::built_in());
  EXPECT_EQ(of_file.report(), "");
  const std::string absolute = (std::filesystem::current_path() / "below/libx.so").string();
  EXPECT_THAT(of_file.config.ddp.plugins, ElementsAre(absolute));

  // Given by a variable or a flag, paths are relative to the current folder.
  const Resolution of_variable =
      resolve_text("[ddp]\n", {{"HOOKLINE_DDP__PLUGINS", "below/libx.so," + file("empty_plugin")}});
  EXPECT_THAT(of_variable.config.ddp.plugins, ElementsAre(absolute, file("empty_plugin")));
  const Resolution of_flag = resolve_text("[ddp]\n", {}, {{"ddp.plugins", "below/libx.so"}});
  EXPECT_EQ(of_flag.report(), "");
  EXPECT_THAT(of_flag.config.ddp.plugins, ElementsAre(absolute));
}

TEST(Plugins, ReachTheRanks) {
  const TempFolder folder;
  const Resolution resolution =
      resolve_text("[ddp]\n" + plugins("sample_plugin") + "comm_hook = \"plugged\"\n");
  TempFolder::write("resolved.json", to_json(resolution.config));
  const RunConfig read = read_resolved("resolved.json", Catalog::built_in());
  EXPECT_EQ(read.ddp.comm_hook, "plugged");
  EXPECT_THAT(read.ddp.plugins, ElementsAre(file("sample_plugin")));
  EXPECT_EQ(read.origins.at("ddp.plugins").where, "run.toml:2:1");

  // A rank that has already loaded the plug-in knows its hooks.
  Catalog catalog = Catalog::built_in();
  add_plugin(file("sample_plugin"), "", catalog);
  EXPECT_EQ(read_resolved("resolved.json", catalog).ddp.comm_hook, "plugged");
}

TEST(Plugins, ThatAreMissingAreNamed) {
  const TempFolder folder;
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(report_of_ddp("plugins = [\"libmine.so\"]\ncomm_hook = \"mine\"\n"),
            "run.toml:2:11: error: plug-in '" + here + R"(/libmine.so' is not there
  2 | plugins = ["libmine.so"]
    |           ^~~~~~~~~~~~~~ a relative path in a config file counts from that file's folder, any other from the current folder
)");
}

TEST(Plugins, BuiltAgainstAnotherTorchAreRefused) {
  const TempFolder folder;
  EXPECT_THAT(report_of_ddp(plugins("old_plugin")),
              AllOf(HasSubstr("run.toml:2:11: error: plug-in '" + file("old_plugin") + "' can't be used\n"),
                    HasSubstr("~ it was built with torch 1.2.3, hookline 0.1.0; the program was built with " +
                              kBuild + ": build both with the same\n")));
}

TEST(Plugins, ThatNameAHookTwiceAreRefused) {
  const TempFolder folder;
  TempFolder::write("run.toml", "[ddp]\n" + plugins("taken_plugin"));
  Sources sources;
  sources.file = "run.toml";
  EXPECT_THAT(
      resolve(sources, Catalog::built_in()).report(),
      AllOf(HasSubstr("error: plug-in '" + file("taken_plugin") + "' can't be used\n"),
            HasSubstr(
                "~ hook 'fp16' is there already, hookline's own or the program's; give one of them another "
                "name\n")));
  EXPECT_THAT(report_of_ddp(plugins("twice_plugin")),
              AllOf(HasSubstr("error: plug-in '" + file("twice_plugin") + "' can't be used\n"),
                    HasSubstr("~ hook 'doubled' is there already, from the plug-in '" + file("twice_plugin") +
                              "'; give one of them another name\n")));
  std::filesystem::copy_file(file("sample_plugin"), "other.so");
  EXPECT_THAT(report_of_ddp("plugins = [\"" + file("sample_plugin") + "\", \"other.so\"]\n"),
              HasSubstr("~ hook 'plugged' is there already, from the plug-in '" + file("sample_plugin") +
                        "'; give "));
  std::filesystem::create_symlink("other.so", "link.so");
  EXPECT_THAT(report_of_ddp("plugins = [\"other.so\", \"link.so\"]\n"),
              AllOf(HasSubstr("other.so' is named twice\n"), HasSubstr("~ keep one of them\n")));
}

TEST(Plugins, FromFilesThatAreNotPluginsAreRefused) {
  const TempFolder folder;
  TempFolder::write("text.so", "not a library\n");
  EXPECT_THAT(
      report_of_ddp("plugins = [\"text.so\"]\n"),
      AllOf(
          HasSubstr("text.so' can't be used\n"),
          HasSubstr(
              "~ it registers no hook: a plug-in is a shared library with HOOKLINE_REGISTER_HOOK in it\n")));
  std::filesystem::create_directory("folder.so");
  EXPECT_THAT(report_of_ddp("plugins = [\"folder.so\"]\n"), HasSubstr("~ it registers no hook: "));
  EXPECT_THAT(report_of_ddp("plugins = [\"" + kFolder + "/plain_program\"]\n"),
              HasSubstr("~ it is a program, not a shared library\n"));
  EXPECT_THAT(report_of_ddp("plugins = [\"" + std::string(300, 'x') + "\"]\n"),
              HasSubstr("' can't be read\n"));
  EXPECT_THAT(report_of_ddp("plugins = [\"\"]\n"), HasSubstr("error: the name of a plug-in is empty\n"));
  EXPECT_THAT(report_of_ddp("plugins = [\"a\\u0000b\"]\n"),
              HasSubstr("error: the name of a plug-in holds a zero byte\n"));
  EXPECT_EQ(report_of_ddp("plugins = \"libmine.so\"\n"),
            R"(run.toml:2:11: error: bad value "libmine.so" for 'plugins' in [ddp]
  2 | plugins = "libmine.so"
    |           ^~~~~~~~~~~~ must be an array of strings; write ["libmine.so"]
)");
  EXPECT_THAT(report_of_ddp("plugins = [1]\n"),
              AllOf(HasSubstr("bad value for 'plugins' in [ddp]: an array\n"),
                    HasSubstr("~ must be an array of strings\n")));
}

TEST(Plugins, OfAVariableOrFlagAreBlamedOnIt) {
  const TempFolder folder;
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(resolve_text("[ddp]\n", {{"HOOKLINE_DDP__PLUGINS", "libmine.so"}}).report(),
              HasSubstr("HOOKLINE_DDP__PLUGINS: error: plug-in '" + here + "/libmine.so' is not there\n"));
  EXPECT_THAT(resolve_text("[ddp]\n", {}, {{"ddp.plugins", "a,,b"}}).report(),
              HasSubstr("--set ddp.plugins: error: the name of a plug-in is "));
}

}  // namespace
}  // namespace hookline
