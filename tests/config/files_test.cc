// Files that include others, and profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/sources/find_config.h"
#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  static Resolution resolve_file(const std::string& file, const std::optional<std::string>& profile = {},
                                 const Variables& variables = {}) {
    Sources sources;
    sources.file = file;
    sources.profile = profile;
    sources.environment = variables;
    return resolve(sources, Catalog::built_in());
  }

 private:
  TempFolder folder_;
};

TEST_F(Files, OverrideTheValuesOfFilesTheyInclude) {
  std::filesystem::create_directory("shared");
  TempFolder::write("shared/deep.toml",
                    "[training]\nseed = 1\nmax_steps = 10\n[logging]\nlevel = \"debug\"\n");
  TempFolder::write("shared/base.toml",
                    "include = [\"deep.toml\"]\n[training]\nseed = 2\n[ddp]\ncomm_hook = \"fp16\"\n");
  TempFolder::write("other.toml",
                    "[training]\ngradient_accumulation_steps = 4\n[ddp]\ncomm_hook = \"bf16\"\n");
  TempFolder::write("run.toml", "include = [\"shared/base.toml\", \"other.toml\"]\n[training]\nseed = 3\n");
  const Resolution resolution = resolve_file("run.toml");
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.training.seed, 3);
  EXPECT_EQ(resolution.config.training.max_steps, 10);
  EXPECT_EQ(resolution.config.training.gradient_accumulation_steps, 4);
  EXPECT_EQ(resolution.config.ddp.comm_hook, "bf16") << "the last one that is included";
  EXPECT_EQ(resolution.config.origins.at("training.max_steps").where, "shared/deep.toml:3:1");
  EXPECT_THAT(resolution.files,
              ElementsAre("shared/deep.toml", "shared/base.toml", "other.toml", "run.toml"));
}

TEST_F(Files, MayIncludeTheSameFileTwice) {
  TempFolder::write("base.toml", "[training]\nseed = 1\n");
  TempFolder::write("a.toml", "include = [\"base.toml\"]\n[training]\nseed = 2\n");
  TempFolder::write("run.toml", "include = [\"a.toml\", \"./base.toml\"]\n");
  const Resolution resolution = resolve_file("run.toml");
  EXPECT_EQ(resolution.report(), "");
  EXPECT_EQ(resolution.config.training.seed, 2) << "base.toml counts once, where it comes first";
}

TEST_F(Files, ThatIncludeEachOtherAreAnError) {
  TempFolder::write("run.toml", "include = [\"a.toml\"]\n");
  TempFolder::write("a.toml", "include = [\"run.toml\"]\n");
  EXPECT_EQ(resolve_file("run.toml").report(),
            "a.toml:1:11: error: 'run.toml' is included in a circle\n"
            "  1 | include = [\"run.toml\"]\n"
            "    |           ^~~~~~~~~~~~ run.toml → a.toml → run.toml\n");
  TempFolder::write("self.toml", "include = [\"self.toml\"]\n");
  EXPECT_THAT(resolve_file("self.toml").report(), HasSubstr("^~~~~~~~~~~~~ self.toml → self.toml\n"));
}

TEST_F(Files, ThatCanNotBeIncludedAreNamed) {
  std::filesystem::create_directory("sub");
  TempFolder::write("sub/run.toml", "include = [\"base.toml\"]\n");
  EXPECT_EQ(
      resolve_file("sub/run.toml").report(),
      "sub/run.toml:1:11: error: 'base.toml' can't be included: there is no such file\n"
      "  1 | include = [\"base.toml\"]\n"
      "    |           ^~~~~~~~~~~~~ looked for sub/base.toml: the path is relative to the folder of this "
      "file\n");
  std::filesystem::create_directory("base");
  TempFolder::write("folder.toml", "seed = 1\ninclude = [\"base\"]\n");
  EXPECT_THAT(resolve_file("folder.toml").report(),
              HasSubstr("base: error: is a directory\n"
                        "  name a TOML file in it; folder.toml:2:11 includes it\n"));
  TempFolder::write("one.toml", "include = \"base.toml\"\n");
  EXPECT_EQ(resolve_file("one.toml").report(),
            "one.toml:1:11: error: bad value for 'include'\n"
            "  1 | include = \"base.toml\"\n"
            "    |           ^~~~~~~~~~~ must be an array of files: include = [\"base.toml\"]\n");
  TempFolder::write("sub/base.toml", "[ddp]\ncomm_hok = 1\n");
  EXPECT_THAT(resolve_file("sub/run.toml").report(),
              HasSubstr("sub/base.toml:2:1: error: unknown key 'comm_hok'"));
}

TEST_F(Files, IncludeEachOtherToALimitedDepth) {
  const auto chain = [](int files) {
    for (int i = 0; i < files; ++i)
      TempFolder::write(std::to_string(i) + ".toml",
                        i + 1 < files ? "include = [\"" + std::to_string(i + 1) + ".toml\"]\n"
                                      : std::string("[training]\nseed = 7\n"));
  };
  chain(33);
  const Resolution deep = resolve_file("0.toml");
  EXPECT_EQ(deep.report(), "");
  EXPECT_EQ(deep.config.training.seed, 7);
  chain(8000);
  EXPECT_EQ(
      resolve_file("0.toml").report(),
      "32.toml:1:11: error: '33.toml' is included too deep\n"
      "  1 | include = [\"33.toml\"]\n"
      "    |           ^~~~~~~~~~~ files include each other at most 32 deep: include it in one of those "
      "above, such as 0.toml\n");
}

TEST_F(Files, AreLimitedInNumber) {
  std::string names;
  for (int i = 0; i < 256; ++i) {
    const std::string name = std::to_string(i) + ".toml";
    TempFolder::write(name, "[training]\nseed = " + std::to_string(i) + "\n");
    names += (i ? ",\n\"" : "\"") + name + "\"";
    if (i == 254) TempFolder::write("most.toml", "include = [" + names + "]\n");
  }
  EXPECT_EQ(resolve_file("most.toml").report(), "");
  TempFolder::write("run.toml", "include = [" + names + "]\n");
  EXPECT_THAT(resolve_file("run.toml").report(),
              HasSubstr("run.toml:1:11: error: '255.toml' is one file too many\n"));
  EXPECT_THAT(resolve_file("run.toml").report(),
              HasSubstr(" a config consists of at most 256 files: put the values of several into one\n"));
}

TEST_F(Files, AreLimitedInBytes) {
  std::string names;
  for (int i = 0; i < 3; ++i) {
    std::string text;
    while (text.size() < 100'000) text += "# " + std::string(1000, 'x') + "\n";
    TempFolder::write(std::to_string(i) + ".toml", text);
    names += (i ? ",\n\"" : "\"") + std::to_string(i) + ".toml\"";
  }
  TempFolder::write("run.toml", "include = [" + names + "]\n[training]\nseed = 1\n");
  EXPECT_EQ(resolve_file("run.toml").report(),
            "2.toml: error: makes the config too large: its files have more than 256 KiB together\n"
            "  run.toml:1:11 includes it; remove what no run needs\n");
}

TEST_F(Files, ResolvePluginsRelativeToTheirOwnFolder) {
  std::filesystem::create_directory("sub");
  TempFolder::write("sub/base.toml", "[ddp]\nplugins = [\"mine.so\"]\n");
  TempFolder::write("run.toml", "include = [\"sub/base.toml\"]\n");
  EXPECT_THAT(resolve_file("run.toml").report(), HasSubstr("/sub/mine.so'"));
}

TEST_F(Files, HaveProfilesThatOverrideTheirValues) {
  TempFolder::write("base.toml",
                    "[profile.slow.training]\nmax_steps = 5\n[profile.slow.ddp]\ncomm_hook = \"bf16\"\n");
  TempFolder::write(
      "run.toml",
      "include = [\"base.toml\"]\n[training]\nseed = 1\n[profile.slow.ddp]\ncomm_hook = \"fp16\"\n"
      "[profile.fast]\nddp.comm_hook = \"power_sgd\"\nddp.comm_state_option.matrix_approximation_rank = 2\n");
  const Resolution plain = resolve_file("run.toml");
  EXPECT_EQ(plain.report(), "");
  EXPECT_EQ(plain.config.ddp.comm_hook, "no");
  EXPECT_THAT(plain.profiles, ElementsAre("slow", "fast"));
  const Resolution slow = resolve_file("run.toml", "slow");
  EXPECT_EQ(slow.config.ddp.comm_hook, "fp16");
  EXPECT_EQ(slow.config.training.max_steps, 5);
  EXPECT_EQ(slow.config.training.seed, 1);
  EXPECT_EQ(slow.config.origins.at("ddp.comm_hook").where, "run.toml:5:1");
  const Resolution fast = resolve_file("run.toml", {}, {{"HOOKLINE_PROFILE", "fast"}});
  EXPECT_EQ(fast.report(), "");
  EXPECT_EQ(fast.config.ddp.comm_hook, "power_sgd");
  const Resolution over = resolve_file("run.toml", "slow", {{"HOOKLINE_DDP__COMM_HOOK", "no"}});
  EXPECT_EQ(over.config.ddp.comm_hook, "no") << "the environment counts more than a profile";
}

TEST_F(Files, ListTheirProfilesWhenOneIsUnknown) {
  TempFolder::write("run.toml", "[profile.slow.training]\nseed = 1\n[profile.fast.training]\nseed = 2\n");
  EXPECT_EQ(resolve_file("run.toml", "slwo").report(),
            "--profile: error: there is no profile 'slwo'\n  did you mean 'slow'?\n");
  EXPECT_EQ(resolve_file("run.toml", {}, {{"HOOKLINE_PROFILE", "other"}}).report(),
            "HOOKLINE_PROFILE: error: there is no profile 'other'\n  the profiles are slow, fast\n");
  TempFolder::write("none.toml", "[training]\nseed = 1\n");
  EXPECT_EQ(resolve_file("none.toml", "slow").report(),
            "--profile: error: there is no profile 'slow'\n"
            "  no file has a profile: write [profile.slow.ddp], and its keys below\n");
  Sources without_file;
  without_file.profile = "slow";
  EXPECT_EQ(
      resolve(without_file, Catalog::built_in()).report(),
      "--profile: error: there is no profile 'slow'\n  there is no config file: name one with --config\n");
}

TEST_F(Files, AreCheckedInUnselectedProfilesToo) {
  TempFolder::write(
      "run.toml",
      "profile.odd = 1\n[profile.slow.ddp]\ncomm_hok = \"fp16\"\n[profile.slow.profile]\nx = 1\n");
  EXPECT_EQ(resolve_file("run.toml").report(),
            "run.toml:1:9: error: 'odd' is a value, not a table\n"
            "  1 | profile.odd = 1\n"
            "    |         ^~~ write [profile.odd.ddp], and its keys in the lines below\n"
            "run.toml:3:1: error: unknown key 'comm_hok' in [ddp]\n"
            "  3 | comm_hok = \"fp16\"\n"
            "    | ^~~~~~~~ did you mean 'comm_hook'?\n"
            "run.toml:4:15: error: 'profile' can't be in a profile\n"
            "  4 | [profile.slow.profile]\n"
            "    |               ^~~~~~~ it belongs before all tables\n");
}

TEST_F(Files, MayBeOfAnOlderButNotANewerVersion) {
  TempFolder::write("run.toml", "schema_version = 1\n[training]\nseed = 1\n");
  EXPECT_EQ(resolve_file("run.toml").report(), "");
  TempFolder::write("run.toml", "schema_version = 99\n");
  EXPECT_EQ(resolve_file("run.toml").report(),
            "run.toml:1:18: error: this file is of schema version 99\n"
            "  1 | schema_version = 99\n"
            "    |                  ^~ this hookline knows those up to 2: it is older than the file\n");
  TempFolder::write("run.toml", "schema_version = \"new\"\n");
  EXPECT_THAT(resolve_file("run.toml").report(),
              HasSubstr("error: bad value for 'schema_version'\n  1 | schema_version = \"new\"\n"));
}

TEST_F(Files, AreFoundInTheCurrentFolderThenInTheUsersOwn) {
  const auto in_home = std::filesystem::current_path() / "home";
  ASSERT_EQ(setenv("XDG_CONFIG_HOME", in_home.c_str(), 1), 0);
  EXPECT_EQ(find_config(), std::nullopt);
  std::filesystem::create_directories(in_home / "hookline");
  TempFolder::write("home/hookline/config.toml", "[training]\nseed = 1\n");
  EXPECT_EQ(find_config(), in_home / "hookline/config.toml");
  TempFolder::write("hookline.toml", "[training]\nseed = 2\n");
  EXPECT_EQ(find_config(), "hookline.toml");
  unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace hookline
