// The tables of a sweep's database. If you change them, raise kSweepFormat and have upgrade_tables convert
// the former ones.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

namespace hookline {

/// SQLite's `user_version`.
inline constexpr int kEmptyFormat = 0;         // no tables yet
inline constexpr int kFormatWithoutFacts = 1;  // trials alone
inline constexpr int kFormatWithoutSeal = 2;   // no checksums
inline constexpr int kSweepFormat = 3;

/// The page size of a sweep's database, SQLite's default. A repair relies on it, whatever the header says.
inline constexpr int kPageBytes = 4096;

/// A table of which each row has a checksum after its other columns.
struct SealedTable {
  const char* name;
  const char* key;      // the first column
  const char* columns;  // without the checksum
  int column_count;

  std::string columns_and_checksum() const { return std::string(columns) + ", checksum"; }
};

inline constexpr SealedTable kTrialsTable{"trials", "id",
                                          "id, position, key_values, program, repeat, is_baseline, status, "
                                          "reason, seconds, metric, step, measures, "
                                          "metric_name, ran_well",
                                          14};
inline constexpr SealedTable kFactsTable{"facts", "name", "name, value", 2};
/// Has one row: how many rows the others have together, and the sum of their checksums.
inline constexpr SealedTable kSealTable{"seal", "id", "id, row_count, checksum_sum", 3};

/// In an empty database; the transaction is the caller's.
void create_tables(SQLite::Database& database);

/// Replaces the tables of a database of the format `from` with those of kSweepFormat, keeping every row.
/// Sealing the rows, and the transaction, are the caller's.
void upgrade_tables(SQLite::Database& database, int from);

/// What create_tables makes, as schema_in finds it.
const std::string& expected_schema();

/// All that sqlite_master says, but for the pages at which tables and indexes begin.
std::string schema_in(SQLite::Database& database);

}  // namespace hookline
