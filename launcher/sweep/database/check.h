// Is a sweep's database as it was written?
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

/// What has the database's name, or that of a file that SQLite keeps beside it, can't be one.
class NoDatabaseFile : public Error {
 public:
  using Error::Error;
};

/// What SQLite appends to a database's name for files of its own: the last two are those of a former version of hookline.
inline constexpr std::array kCompanions = {"-journal", "-wal", "-shm"};

/// Is `file`, in a sweep's folder, there? If not, the sweep is to begin. Throws MissingDatabase, and NoDatabaseFile for a
/// directory, a named pipe and the like, from which SQLite may never return: also beside it, under the names of kCompanions.
bool is_there(const std::filesystem::path& file);

/// Throws DamagedDatabase if the log of a former version's sweep, which was killed, is damaged: SQLite would drop what is
/// behind the damage.
void expect_sound_log(const std::filesystem::path& file);

/// Throws DamagedDatabase if the database has no trials, though its folder has.
void expect_trials(SQLite::Database& database, const std::filesystem::path& folder);

/// Says SQLite that what it has read is damaged? Otherwise it is the machine's trouble, such as a full disk, after which the
/// database is as it was.
bool is_damage(const SQLite::Exception& error);

/// Reads all of the database, which lies in a sweep's folder, within the caller's transaction or one of its own: its format.
/// Throws DamagedDatabase, Error for one of another version, and SQLite's exceptions for the machine's trouble. One of
/// format 0 is empty; of former formats, which have no checksums, damage of values is not found.
int checked_format(SQLite::Database& database, const std::filesystem::path& folder);

}  // namespace hookline
