#include "launcher/sweep/database/tables.h"

namespace hookline {
namespace {

constexpr const char* kCreateTrials =
    "CREATE TABLE trials ("
    "  id TEXT PRIMARY KEY, position INTEGER NOT NULL,"  // -1: of an earlier plan
    "  key_values TEXT NOT NULL, program TEXT NOT NULL, repeat INTEGER NOT NULL, is_baseline INTEGER NOT "
    "NULL,"
    "  status TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL, metric REAL, step INTEGER,"
    "  measures TEXT NOT NULL, metric_name TEXT NOT NULL, ran_well INTEGER NOT NULL, checksum TEXT NOT NULL)";
constexpr const char* kCreateFacts =
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL)";
constexpr const char* kCreateSeal =
    "CREATE TABLE seal (id INTEGER PRIMARY KEY, row_count INTEGER NOT NULL, checksum_sum TEXT NOT NULL,"
    "  checksum TEXT NOT NULL)";

/// The name of the old table during an upgrade.
std::string former(const SealedTable& table) { return std::string("former_") + table.name; }

void move_away(SQLite::Database& database, const SealedTable& table) {
  database.exec(std::string("ALTER TABLE ") + table.name + " RENAME TO " + former(table));
}

void bring_back(SQLite::Database& database, const SealedTable& table) {
  database.exec(std::string("INSERT INTO ") + table.name + " (" + table.columns_and_checksum() + ") SELECT " +
                table.columns + ", '' FROM " + former(table) + " ORDER BY rowid");
  database.exec("DROP TABLE " + former(table));
}

}  // namespace

void create_tables(SQLite::Database& database) {
  for (const char* create : {kCreateTrials, kCreateFacts, kCreateSeal}) database.exec(create);
  database.exec("PRAGMA user_version = " + std::to_string(kSweepFormat));
}

void upgrade_tables(SQLite::Database& database, int from) {
  // Makes new tables instead of altering the old ones, so that every database has the same schema text, which
  // is checked.
  move_away(database, kTrialsTable);
  if (from != kFormatWithoutFacts) move_away(database, kFactsTable);
  create_tables(database);
  bring_back(database, kTrialsTable);
  if (from != kFormatWithoutFacts) bring_back(database, kFactsTable);
}

const std::string& expected_schema() {
  static const std::string schema = [] {
    SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    create_tables(database);
    return schema_in(database);
  }();
  return schema;
}

std::string schema_in(SQLite::Database& database) {
  std::string schema;
  SQLite::Statement rows(database, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name");
  while (rows.executeStep()) {
    for (int i = 0; i < rows.getColumnCount(); ++i) schema += rows.getColumn(i).getString() + "\n";
  }
  return schema;
}

}  // namespace hookline
