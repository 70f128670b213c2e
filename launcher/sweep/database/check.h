// Checks a sweep's database for damage.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <exception>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace hookline {

/// Says what is damaged.
class DamagedDatabase : public Error {
 public:
  DamagedDatabase(const std::string& what, bool has_checksums) : Error(what), has_checksums_(has_checksums) {}
  /// Can sound rows be told from damaged ones?
  bool has_checksums() const { return has_checksums_; }

 private:
  bool has_checksums_;
};

/// The whole database is missing, though its sweep has trials.
class MissingDatabase : public DamagedDatabase {
 public:
  MissingDatabase() : DamagedDatabase("it is missing, though trials have run", true) {}
};

/// Something that is not a regular file has the database's name, or that of a file that SQLite keeps beside
/// it.
class NoDatabaseFile : public Error {
 public:
  using Error::Error;
};

/// Something kept the database from being read, and nothing is known to be wrong with it.
class UnreadDatabase : public Error {
 public:
  using Error::Error;
};

/// Suffixes of the files that SQLite keeps beside a database. The last two can only be left from a former
/// version of hookline, which used SQLite's write-ahead log.
inline constexpr std::array kCompanions = {"-journal", "-wal", "-shm"};

/// Do all rows of a database of this format have checksums? True for an empty one, which has no rows.
bool format_has_checksums(int format);

/// Returns whether `file` exists; false means that the sweep has not begun. Throws MissingDatabase if it is
/// gone although trials have run. Throws NoDatabaseFile if it, or a file beside it with a name of
/// kCompanions, is a directory, a named pipe or the like, on which SQLite could hang.
bool is_there(const std::filesystem::path& file);

/// Throws DamagedDatabase if the log of a former version's sweep, which was killed, is damaged: SQLite would
/// drop what follows the damage. Throws UnreadDatabase if the log can't be read.
void expect_sound_log(const std::filesystem::path& file);

/// Throws DamagedDatabase if the database has no trials, though its folder has. `format`: the database's.
void expect_trials(SQLite::Database& database, const std::filesystem::path& folder, int format);

/// True if SQLite's error means that the database is damaged; false for system errors, such as a full disk,
/// which leave the database as it was.
bool is_damage(const SQLite::Exception& error);

/// Verifies the whole database of a sweep's folder, and returns its format. Begins no transaction: if another
/// process may write meanwhile, call it inside one. Throws DamagedDatabase, Error for an unknown format, and
/// SQLite's exceptions for system errors. Format 0 is an empty database; in older formats, which lack
/// checksums, damaged values go unnoticed.
int checked_format(SQLite::Database& database, const std::filesystem::path& folder);

}  // namespace hookline
