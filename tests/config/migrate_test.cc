#include "config/sources/migrate.h"

#include <gmock/gmock.h>

#include <sstream>

#include "config/schema/schema.h"
#include "config/sources/file_keys.h"
#include "config/toml/edit.h"
#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string fixture(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(SCHEMA_VERSIONS "/" + name).rdbuf();
  return text.str();
}

Migrated migrate_text(const std::string& text) { return migrate(SourceText("run.toml", text)); }

/// Each past schema version has a sample file and its migrated form.
TEST(Migrate, UpdatesAFileOfEachVersion) {
  const TempFolder folder;
  for (std::int64_t version = 1; version < kSchemaVersion; ++version) {
    const Migrated migrated = migrate_text(fixture(std::to_string(version) + ".toml"));
    EXPECT_EQ(migrated.text, fixture(std::to_string(version) + "_updated.toml"));
    EXPECT_EQ(report_of(migrated.text), "");
    EXPECT_EQ(migrate_text(migrated.text).text, migrated.text) << "once is enough";
  }
}

TEST(Migrate, ChangesProfilesToo) {
  const Migrated migrated =
      migrate_text("[logging]\nprefix = true\n[profile.plain.logging]\nprefix = false\n[ddp]\ndim = 0\n");
  EXPECT_EQ(
      migrated.text,
      "schema_version = 2\n[logging]\n[profile.plain.logging]\nprefix_template = \"\"\n[ddp]\ndim = 0\n");
  EXPECT_THAT(
      migrated.changes,
      ElementsAre("logging.prefix is now prefix_template, in which \"\" means no prefix",
                  "profile.plain.logging.prefix is now prefix_template, in which \"\" means no prefix"));
}

TEST(Migrate, LeavesACurrentFileUnchanged) {
  const std::string text = "schema_version = 2\n[logging]\nlevel = \"info\" # as ever\n";
  EXPECT_EQ(migrate_text(text).text, text);
  EXPECT_THAT(migrate_text(text).changes, IsEmpty());
}

TEST(Migrate, RefusesAVersionThatItDoesNotKnow) {
  for (const std::string version : {"3", "0", "\"two\""}) {
    try {
      migrate_text("schema_version = " + version + "\n");
      ADD_FAILURE() << version;
    } catch (const EditError& error) {
      EXPECT_EQ(error.what(),
                "'run.toml' is of schema version " + version + ", and this hookline knows 1 to 2");
    }
  }
}

TEST(Migrate, IsSuggestedForAKeyOfAnOlderVersion) {
  const TempFolder folder;
  EXPECT_EQ(report_of("[logging]\nprefix = false\n"),
            "run.toml:2:1: error: unknown key 'prefix' in [logging]\n"
            "  2 | prefix = false\n"
            "    | ^~~~~~ a key of schema version 1, now prefix_template, in which \"\" means no prefix: "
            "`hookline config "
            "update FILE` changes it\n");
}

}  // namespace
}  // namespace hookline
