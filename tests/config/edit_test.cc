#include "config/toml/edit.h"

#include <gmock/gmock.h>

#include "config/print.h"
#include "config/starting_file.h"
#include "tests/config/config_fixture.h"
#include "tests/support/sanitized.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;

std::string set(const std::string& text, const KeyPath& key, const std::string& value) {
  return with_key(SourceText("run.toml", text), key, value);
}
std::string unset(const std::string& text, const KeyPath& key) {
  return without_key(SourceText("run.toml", text), key);
}

TEST(Edit, ReplacesAValueAndNothingElse) {
  const std::string text =
      "# mine\n[ddp]  # hooks\n  comm_hook   =   \"no\"   # the plain one\n\n[training] # all\nseed=1\n";
  EXPECT_EQ(
      set(text, {"ddp", "comm_hook"}, "\"fp16\""),
      "# mine\n[ddp]  # hooks\n  comm_hook   =   \"fp16\"   # the plain one\n\n[training] # all\nseed=1\n");
  EXPECT_EQ(set("a.b = [1,\n  2] # two\n", {"a", "b"}, "3"), "a.b = 3 # two\n");
  EXPECT_EQ(set("a = {b = 1, c = 2}\n", {"a", "b"}, "7"), "a = {b = 7, c = 2}\n");
  EXPECT_EQ(set("a = \"\"\"x\n[b]\nc = 1\n\"\"\"\n[b]\nc = 2\n", {"b", "c"}, "3"),
            "a = \"\"\"x\n[b]\nc = 1\n\"\"\"\n[b]\nc = 3\n");
}

TEST(Edit, AddsAKeyToItsTable) {
  EXPECT_EQ(set("[a]\nx = 1\n\n# about b\n[b]\ny = 2\n", {"a", "z"}, "3"),
            "[a]\nx = 1\nz = 3\n\n# about b\n[b]\ny = 2\n");
  EXPECT_EQ(set("[a]\r\nx = 1\r\n", {"a", "z"}, "3"), "[a]\r\nx = 1\r\nz = 3\r\n");
  EXPECT_EQ(set("[a]\nx = 1", {"a", "z"}, "3"), "[a]\nx = 1\nz = 3\n");
  EXPECT_EQ(set("[a.b]\nx = 1\n", {"a", "z"}, "3"), "[a.b]\nx = 1\n\n[a]\nz = 3\n");
  EXPECT_EQ(set("a = {x = 1}\n", {"a", "z"}, "3"), "a = {x = 1, z = 3}\n");
  EXPECT_EQ(set("a = {}\n", {"a", "z"}, "3"), "a = { z = 3}\n");
  EXPECT_EQ(set("a.x = 1\n[b]\ny = 2\n", {"a", "z"}, "3"), "a.x = 1\na.z = 3\n[b]\ny = 2\n");
  EXPECT_EQ(set("[ a . 'b' ]\nx = [\n  [1],\n]\ny = 2\n", {"a", "b", "z"}, "3"),
            "[ a . 'b' ]\nz = 3\nx = [\n  [1],\n]\ny = 2\n")
      << "a line of the array looks like a header";
}

TEST(Edit, AddsAKeyBelowItsCommentedDefault) {
  EXPECT_EQ(set("[a]\n# what x is\n#x = 1\n# what y is\n#y = 2\n", {"a", "x"}, "5"),
            "[a]\n# what x is\n#x = 1\nx = 5\n# what y is\n#y = 2\n");
  EXPECT_EQ(set("[a]\n#xy = 1\n", {"a", "x"}, "5"), "[a]\nx = 5\n#xy = 1\n");
}

TEST(Edit, CreatesAMissingTable) {
  EXPECT_EQ(set("", {"a", "b"}, "1"), "[a]\nb = 1\n");
  EXPECT_EQ(set("[x]\ny = 1\n", {"a b", "c"}, "1"), "[x]\ny = 1\n\n[\"a b\"]\nc = 1\n");
  EXPECT_EQ(set("# head\n[x]\ny = 1\n", {"top"}, "2"), "# head\ntop = 2\n[x]\ny = 1\n");
}

TEST(Edit, RemovesAKey) {
  EXPECT_EQ(unset("[a]\nx = 1 # one\ny = 2\n", {"a", "x"}), "[a]\ny = 2\n");
  EXPECT_EQ(unset("[a]\nx = [\n 1,\n]\ny = 2\n", {"a", "x"}), "[a]\ny = 2\n");
  EXPECT_EQ(unset("a = {x = 1, y = 2}\n", {"a", "x"}), "a = { y = 2}\n");
  EXPECT_EQ(unset("a = {x = 1, y = 2}\n", {"a", "y"}), "a = {x = 1}\n");
  EXPECT_EQ(unset("a.x = 1\n", {"a", "x"}), "");
}

TEST(Edit, RefusesWhatItCanNotDo) {
  const auto message = [](auto edit) -> std::string {
    try {
      edit();
    } catch (const EditError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(message([] {
              set("[a\n", {"a", "x"}, "1");
            }),
            "'run.toml' is not valid TOML: `hookline config validate` says where");
  EXPECT_EQ(message([] { set("a = 1\n", {"a", "x"}, "1"); }), "'a' in 'run.toml' is a value, not a table");
  EXPECT_EQ(message([] { set("", {"a"}, "fp16"); }), "'fp16' is not a value of TOML");
  EXPECT_THAT(message([] { set("", {"a"}, "1\nb = 2"); }), HasSubstr("'1\nb = 2' is not a value"));
  EXPECT_EQ(message([] { unset("[a]\n", {"a", "x"}); }), "'run.toml' has no a.x");
}

TEST(Edit, FindsAValueAsItIsWritten) {
  EXPECT_EQ(value_in(SourceText("run.toml", "[a]\nb = 'x' # y\n"), {"a", "b"}), "'x'");
  EXPECT_EQ(value_in(SourceText("run.toml", "[a]\nb = 'x'\n"), {"a", "c"}), "");
}

/// Every key of the schema can be set and removed again in the default config file.
TEST(Edit, ChangesEachKeyOfAStartingFileAndBack) {
  const TempFolder folder;
  const std::string start = starting_file(Catalog::built_in());
  EXPECT_EQ(report_of(start), "");
  const std::vector<ShownValue> values = shown_values(resolve_text(start).config);
  for (std::size_t i = 0; i < values.size(); i += testing::kSanitized ? 4 : 1) {
    const ShownValue& value = values[i];
    KeyPath path = {value.table.substr(0, value.table.find('.'))};
    if (value.table.find('.') != std::string::npos)
      path.push_back(value.table.substr(value.table.find('.') + 1));
    path.push_back(value.name);
    const std::string with = set(start, path, to_text(value.value));
    EXPECT_THAT(with, HasSubstr("#" + value.name + " = " + to_text(value.value) + "\n" + value.name + " = " +
                                to_text(value.value) + "\n"));
    EXPECT_EQ(unset(with, path), start);
  }
}

}  // namespace
}  // namespace hookline
