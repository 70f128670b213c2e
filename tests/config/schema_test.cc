#include "config/schema/schema.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "config/toml/toml_keys.h"

namespace hookline {
namespace {

TEST(Schema, HasEachKeyOnceWithHelpAndADefaultThatItAccepts) {
  std::set<std::string> keys;
  for (const KeyRow& row : schema()) {
    EXPECT_TRUE(keys.insert(row.key()).second) << row.key();
    EXPECT_FALSE(row.option.help.empty()) << row.key();
    std::string problem;
    EXPECT_TRUE(check_value(row.option, row.option.default_value, problem)) << row.key() << " " << problem;
    EXPECT_EQ(row.get(RunConfig()), row.option.default_value) << row.key();
    EXPECT_EQ(find_key(row.table, row.option.name), &row);
  }
}

TEST(Schema, ReadsBackTheFieldItSets) {
  for (const KeyRow& row : schema()) {
    const OptionType type = row.option.type;
    const OptionValue value = type == OptionType::texts ? OptionValue(std::vector<std::string>{"error"})
                              : type == OptionType::boolean
                                  ? OptionValue(!std::get<bool>(row.option.default_value))
                              : type == OptionType::integer ? OptionValue(std::int64_t{7})
                              : type == OptionType::number  ? OptionValue(7.5)
                                                            : OptionValue(std::string("error"));
    RunConfig config;
    row.set(config, value);
    EXPECT_EQ(row.get(config), value) << row.key();
    for (const KeyRow& other : schema()) {
      if (&other == &row) continue;
      EXPECT_EQ(other.get(config), other.option.default_value) << row.key() << " sets " << other.key();
    }
  }
}

TEST(TomlKeys, AreFoundWithTheirValues) {
  const std::string text =
      "a = 1 # c\n[t . \"u v\"]\nb.c = '''x\n]'''\nd = [ {e = 1}, \"]\" ]\n[[w]]\nz={y='}', q=2}\n";
  const auto keys = find_keys(text);
  const auto shown = [&](const KeyPath& path) {
    const auto found = keys.find(path);
    if (found == keys.end()) return std::string("none");
    const auto at = [&](Span span) { return text.substr(span.offset, span.length); };
    return at(found->second.key) + " -> " + at(found->second.value);
  };
  EXPECT_EQ(shown({"a"}), "a -> 1");
  EXPECT_EQ(shown({"t"}), "t -> t");
  EXPECT_EQ(shown({"t", "u v"}), "\"u v\" -> \"u v\"");
  EXPECT_EQ(shown({"t", "u v", "b", "c"}), "c -> '''x\n]'''");
  EXPECT_EQ(shown({"t", "u v", "d"}), "d -> [ {e = 1}, \"]\" ]");
  EXPECT_EQ(shown({"t", "u v", "d", "e"}), "none");
  EXPECT_EQ(shown({"w", "z", "q"}), "q -> 2");
}

}  // namespace
}  // namespace hookline
