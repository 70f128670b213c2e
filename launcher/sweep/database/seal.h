// Checksums that detect damage to a sweep's database: each row has a checksum, and the seal, a row that every
// transaction updates, holds the sum of all of them. This detects changed and lost rows, and updating it
// costs the same for any number of trials.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <string>

#include "launcher/sweep/database/tables.h"

namespace hookline {

/// Of all rows together, in any order.
struct Seal {
  std::int64_t row_count = 0;
  std::uint64_t checksum_sum = 0;  // modulo 2^64
  bool operator==(const Seal&) const = default;

  /// `checksum`: of a row, 16 hexadecimal digits.
  void add(const std::string& checksum);
  void remove(const std::string& checksum);
};

/// The checksum of the current row of the query `row`. It covers the table's name and the type and value of
/// each column; the query's first columns must be those of `table`.
std::string checksum_of_row(const SealedTable& table, SQLite::Statement& row);

/// Does the row have the checksum that it is to have? `row` selects `columns_and_checksum`.
bool is_sound(const SealedTable& table, SQLite::Statement& row);

/// The database's seal. Throws Error if it has none that is sound.
Seal seal_in(SQLite::Database& database);

/// Seals every row as it is, for the caller to commit.
void seal_all(SQLite::Database& database);

/// Calls `change`, which changes the row of the trial `id` alone, and seals what it leaves, in one
/// transaction. Throws Error if there is no such trial.
void change_trial(SQLite::Database& database, const std::string& id, const std::function<void()>& change);

}  // namespace hookline
