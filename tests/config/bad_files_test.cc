// Files that are not configs at all.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdint>

#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BadFiles : public ::testing::Test {
 protected:
  static std::string report_of_file(const std::string& file) {
    Sources sources;
    sources.file = file;
    const Resolution resolution = resolve(sources, Catalog::built_in());
    EXPECT_FALSE(resolution.ok());
    return resolution.report();
  }

 private:
  TempFolder folder_;
};

TEST_F(BadFiles, EmptyOnesAreErrors) {
  const std::string expected =
      "run.toml: error: the file is empty\n  write a table and a key, such as [ddp] and comm_hook = "
      "\"fp16\"\n";
  EXPECT_EQ(report_of(""), expected);
  EXPECT_EQ(report_of(" \n\t\r\n"), expected);
  EXPECT_EQ(report_of("\xEF\xBB\xBF\n"), expected);
  EXPECT_EQ(report_of("# all defaults\n"), "");
}

TEST_F(BadFiles, MissingOnesAreErrors) {
  EXPECT_EQ(report_of_file("nowhere.toml"), "nowhere.toml: error: there is no such file\n  check the path\n");
  EXPECT_EQ(report_of_file(""), "error: the name of the config is empty\n  name a TOML file\n");
}

TEST_F(BadFiles, DirectoriesPipesAndDevicesAreErrors) {
  std::filesystem::create_directory("folder");
  EXPECT_EQ(report_of_file("folder"), "folder: error: is a directory\n  name a TOML file in it\n");
  ASSERT_EQ(mkfifo("pipe", 0600), 0);
  EXPECT_EQ(report_of_file("pipe"), "pipe: error: is not a regular file\n  a config is a TOML file\n");
  EXPECT_EQ(report_of_file("/dev/zero"),
            "/dev/zero: error: is not a regular file\n  a config is a TOML file\n");
}

TEST_F(BadFiles, UnreadableOnesAreErrors) {
  TempFolder::write("secret.toml", "[ddp]\n");
  EXPECT_EQ(report_of_file("secret.toml/run.toml"),
            "secret.toml/run.toml: error: cannot be read: Not a directory\n");
  if (geteuid() == 0) return;  // root can read everything
  std::filesystem::permissions("secret.toml", std::filesystem::perms::none);
  EXPECT_EQ(report_of_file("secret.toml"), "secret.toml: error: cannot be read: Permission denied\n");
}

// A sparse file larger than memory: reading it would never finish.
TEST_F(BadFiles, HugeOnesAreErrorsWithoutBeingRead) {
  TempFolder::write("huge.toml", "[ddp]\n");
  std::filesystem::resize_file("huge.toml", std::uintmax_t{1} << 40);
  EXPECT_EQ(report_of_file("huge.toml"),
            "huge.toml: error: is too large for a config: 1 TiB\n  a config has at most 256 KiB\n");
}

TEST_F(BadFiles, BinaryOnesAreErrors) {
  EXPECT_EQ(report_of(std::string("[ddp]\n\0", 7)),
            "run.toml: error: is a binary file: its byte 7 is zero\n  a config is a TOML file\n");
}

TEST_F(BadFiles, ControlCharactersAreErrorsWithTheirPlace) {
  EXPECT_EQ(report_of("# a\x01\n# b\n"),
            "run.toml:1:4: error: a control character, \\u0001\n"
            "  1 | # a?\n"
            "    |    ^ remove it, or write it as \\u0001 in a string\n");
  for (const std::string character : {"\x1b", "\x7f", "\r", "\b"})
    for (const std::string& text : {"# " + character + "x\n#\n", "[logging]\ndir = \"a" + character + "b\"\n",
                                    "[logging]\ndir = \"\"\"\n" + character + "x\"\"\"\n"})
      EXPECT_THAT(report_of(text), HasSubstr(": error: a control character, \\u00")) << text;
  EXPECT_EQ(report_of("[logging]\t# tabs\r\ndir\t= \"a\\tb\"\r\n"), "");
}

TEST_F(BadFiles, NulCharactersInStringsAreErrors) {
  EXPECT_EQ(report_of("[logging]\ndir = \"a\\u0000b\"\n"),
            "run.toml:2:7: error: a string with a NUL character\n"
            "  2 | dir = \"a\\u0000b\"\n"
            "    |       ^~~~~~~~~~ no program and no file takes one: leave \\u0000 out\n");
  EXPECT_THAT(report_of("[ddp]\nplugins = [\"a.so\", \"b\\u0000.so\"]\n"),
              HasSubstr("run.toml:2:20: error: a string with a NUL character\n"));
  EXPECT_THAT(report_of("[ddp]\n\"comm\\u0000_hook\" = \"fp16\"\n"),
              HasSubstr("run.toml:2:21: error: a key with a NUL character\n"));
}

TEST_F(BadFiles, BrokenUtf8IsAnErrorWithItsPlace) {
  const std::string expected =
      "run.toml:2:9: error: not valid UTF-8\n"
      "  2 | dir = \"é?\"\n"
      "    |         ^ save the file as UTF-8\n";
  EXPECT_EQ(report_of("[logging]\ndir = \"é\xff\"\n"), expected);
  EXPECT_EQ(report_of("[logging]\ndir = \"é\xc3\"\n"), expected);
  for (const char* sequence : {"\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe0\x80\x80",
                               "\xf0\x80\x80\x80", "\xf4\x90\x80\x80"})
    EXPECT_THAT(report_of("[logging]\ndir = \"" + std::string(sequence) + "\"\n"),
                HasSubstr("run.toml:2:8: error: not valid UTF-8\n"));
  EXPECT_EQ(report_of("[logging]\ndir = \"é€𝄞\"\n"), "");
}

TEST_F(BadFiles, AByteOrderMarkIsSkipped) {
  EXPECT_EQ(report_of("\xEF\xBB\xBF[ddp]\ncomm_hook = \"fp16\"\n"), "");
}

TEST_F(BadFiles, WindowsLineEndsAreFine) {
  EXPECT_EQ(report_of("[ddp]\r\ncomm_hook = \"fp16\"\r\n"), "");
  EXPECT_EQ(report_of("[ddp]\r\ncom_hook = \"fp16\"\r\n"),
            "run.toml:2:1: error: unknown key 'com_hook' in [ddp]\n"
            "  2 | com_hook = \"fp16\"\n"
            "    | ^~~~~~~~ did you mean 'comm_hook'?\n");
}

TEST_F(BadFiles, OverlongLinesAreErrors) {
  EXPECT_THAT(report_of("[logging]\ndir = \"" + std::string(5000, 'a') + "\"\n"),
              HasSubstr("run.toml:2:4097: error: the line is too long\n"));
  EXPECT_THAT(report_of("[logging]\ndir = \"" + std::string(5000, 'a') + "\"\n"),
              HasSubstr("^ a line has at most 4 KiB\n"));
}

TEST_F(BadFiles, AHeaderBehindAValueIsAnError) {
  EXPECT_EQ(report_of("[training]\nmax_steps = 3 [ddp]\ncomm_hook = \"fp16\"\n"),
            "run.toml:2:15: error: a table's header needs a line of its own\n"
            "  2 | max_steps = 3 [ddp]\n"
            "    |               ^ start a new line before it\n");
  for (const char* value : {"\"a\" [ddp]", "true[ddp]", "[1] [ddp]", "{ a = 1 } [[ddp]]"})
    EXPECT_THAT(report_of("[training]\nx = " + std::string(value) + "\n"),
                HasSubstr("a table's header needs a line "))
        << value;
  for (const char* good : {"  [training]\n", "\t[training] # of [ddp]\nmax_steps = 3 # [ddp]\n"})
    EXPECT_EQ(report_of(good), "") << good;
}

TEST_F(BadFiles, OnlyIntegersAreCalledTooLarge) {
  for (const char* value : {"\"\\U00110000\"", "2024-01-01T10:00:00+25:00"})
    EXPECT_THAT(report_of("[logging]\ndir = " + std::string(value) + "\n"), Not(HasSubstr("64 bits")))
        << value;
}

TEST_F(BadFiles, DeepNestingIsAnErrorInEveryForm) {
  const std::string note = " a config nests at most 64 deep\n";
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "[\n";
  EXPECT_EQ(report_of("x = [\n" + many), "run.toml:65:1: error: nested too deep\n  65 | [\n     | ^" + note);
  std::string dots = "a", braces, in_string = "x = '\n";
  for (int i = 0; i < 1000; ++i) {
    dots += ".a";
    braces += "a={";
    in_string += "y=[\n";
  }
  for (const std::string& text :
       {dots + " = 1\n", "[" + dots + "]\n", braces, "x = \"\"\"\n" + many, in_string})
    EXPECT_THAT(report_of(text), HasSubstr("nested too deep\n")) << text.substr(0, 20);
  EXPECT_THAT(report_of("x = " + std::string(60, '[') + std::string(60, ']') + "\n"),
              HasSubstr("key 'x' is outside of any table"));
}

TEST_F(BadFiles, ReportsStopWhenAFileIsNoToml) {
  std::string prose;
  for (int i = 0; i < 1000; ++i) prose += "Dear reader, this is no TOML.\n";
  const std::string report = report_of(prose);
  EXPECT_THAT(report,
              ::testing::StartsWith(
                  "run.toml: error: has too many errors: not all of it was read\n  is it a TOML file?\n"
                  "run.toml:1:6: error: '=' is missing\n"));
  EXPECT_LT(report.size(), 5000U);
}

}  // namespace
}  // namespace hookline
