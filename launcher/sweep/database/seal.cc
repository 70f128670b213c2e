#include "launcher/sweep/database/seal.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/checksum.h"

namespace hookline {
namespace {

constexpr std::int64_t kSealRow = 1;
constexpr int kHexadecimal = 16;

std::uint64_t checksum_from(const std::string& checksum) {
  return std::stoull(checksum, nullptr, kHexadecimal);
}

std::string text_of(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string select_row(const SealedTable& table) {
  return "SELECT " + table.columns_and_checksum() + " FROM " + table.name + " WHERE " + table.key + " = ?";
}

/// Updates the checksum of a row to match its values, and returns it.
template <class Key>
std::string seal_row(SQLite::Database& database, const SealedTable& table, const Key& key) {
  SQLite::Statement row(database, select_row(table));
  row.bind(1, key);
  if (!row.executeStep())
    throw Error(std::string("a row that was just written is not in '") + table.name + "'");
  const std::string checksum = checksum_of_row(table, row);
  row.reset();
  SQLite::Statement put(
      database, std::string("UPDATE ") + table.name + " SET checksum = ? WHERE " + table.key + " = ?");
  put.bind(1, checksum);
  put.bind(2, key);
  put.exec();
  return checksum;
}

void put_seal(SQLite::Database& database, const Seal& seal) {
  SQLite::Statement put(
      database, "INSERT OR REPLACE INTO seal (id, row_count, checksum_sum, checksum) VALUES (?, ?, ?, '')");
  put.bind(1, kSealRow);
  put.bind(2, seal.row_count);
  put.bind(3, text_of(seal.checksum_sum));
  put.exec();
  seal_row(database, kSealTable, kSealRow);
}

}  // namespace

void Seal::add(const std::string& checksum) {
  ++row_count;
  checksum_sum += checksum_from(checksum);
}

void Seal::remove(const std::string& checksum) {
  --row_count;
  checksum_sum -= checksum_from(checksum);
}

std::string checksum_of_row(const SealedTable& table, SQLite::Statement& row) {
  Checksum checksum;
  const auto add = [&](char type, const void* data, std::size_t bytes) {
    const std::uint64_t length = bytes;  // so that one column's end can't pass for the next one's start
    checksum.add(&type, sizeof type);
    checksum.add(&length, sizeof length);
    checksum.add(data, bytes);
  };
  const std::string name = table.name;
  add('T', name.data(), name.size());
  for (int i = 0; i < table.column_count; ++i) {
    const SQLite::Column column = row.getColumn(i);
    if (column.isInteger()) {
      const std::int64_t value = column.getInt64();
      add('i', &value, sizeof value);
    } else if (column.isFloat()) {
      const double value = column.getDouble();
      add('f', &value, sizeof value);
    } else if (column.isNull()) {
      add('n', nullptr, 0);
    } else {
      const std::string value = column.getString();
      add(column.isText() ? 't' : 'b', value.data(), value.size());
    }
  }
  return checksum.text();
}

bool is_sound(const SealedTable& table, SQLite::Statement& row) {
  const SQLite::Column checksum = row.getColumn(table.column_count);
  return checksum.isText() && checksum.getString() == checksum_of_row(table, row);
}

Seal seal_in(SQLite::Database& database) {
  SQLite::Statement row(database, select_row(kSealTable));
  row.bind(1, kSealRow);
  if (!row.executeStep()) throw Error("the seal over all its rows is missing");
  if (!is_sound(kSealTable, row)) throw Error("the checksum over all its rows is damaged itself");
  return {row.getColumn(1).getInt64(), checksum_from(row.getColumn(2).getString())};
}

void seal_all(SQLite::Database& database) {
  Seal seal;
  for (const SealedTable& table : {kTrialsTable, kFactsTable}) {
    std::vector<std::string> to_seal;
    SQLite::Statement rows(database, "SELECT " + table.columns_and_checksum() + " FROM " + table.name);
    while (rows.executeStep()) {
      if (is_sound(table, rows))
        seal.add(rows.getColumn(table.column_count).getString());
      else
        to_seal.push_back(rows.getColumn(0).getString());
    }
    for (const std::string& key : to_seal) seal.add(seal_row(database, table, key));
  }
  put_seal(database, seal);
}

void change_trial(SQLite::Database& database, const std::string& id, const std::function<void()>& change) {
  SQLite::Transaction whole(database);
  Seal seal = seal_in(database);
  {
    SQLite::Statement before(database, select_row(kTrialsTable));
    before.bind(1, id);
    if (!before.executeStep()) throw Error("it has no trial '" + id + "'");
    seal.remove(before.getColumn(kTrialsTable.column_count).getString());
  }
  change();
  seal.add(seal_row(database, kTrialsTable, id));
  put_seal(database, seal);
  whole.commit();
}

}  // namespace hookline
