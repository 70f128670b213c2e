#include "launcher/sweep/database/check.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/regular_file.h"
#include "base/text/count_text.h"
#include "launcher/sweep/database/log_frames.h"
#include "launcher/sweep/database/seal.h"
#include "launcher/sweep/database/tables.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 20;
constexpr std::uint64_t kMostLogBytes = std::uint64_t{1} << 30;
// Of page 1, see https://www.sqlite.org/fileformat2.html.
constexpr std::string_view kFileMagic{"SQLite format 3\0", 16};
constexpr std::size_t kUserVersionAt = 60;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kMostNamed ? text + ", …" : text;
}

/// The first finding of SQLite's own check; empty if all is well.
std::string problem_of_structure(SQLite::Database& database) {
  SQLite::Statement check(database, "PRAGMA integrity_check(1)");
  if (!check.executeStep()) return "";
  std::string said = check.getColumn(0).getString();
  if (said == "ok") return "";
  for (char& c : said)
    if (c == '\n') c = ' ';
  return "SQLite finds: " + said;
}

/// Rows that do not match their checksums or the seal; empty if all is well.
std::string problem_of_rows(SQLite::Database& database) {
  Seal found;
  std::string problem;
  for (const SealedTable& table : {kTrialsTable, kFactsTable}) {
    std::vector<std::string> damaged;
    SQLite::Statement rows(database,
                           "SELECT " + table.columns_and_checksum() + " FROM " + table.name + " NOT INDEXED");
    while (rows.executeStep()) {
      if (is_sound(table, rows))
        found.add(rows.getColumn(table.column_count).getString());
      else
        damaged.push_back("'" + rows.getColumn(0).getString() + "'");
    }
    const std::string name = table.name, one = name.substr(0, name.size() - 1);  // "trials" and "trial"
    if (!damaged.empty() && !problem.empty()) problem += "; ";
    if (damaged.size() == 1)
      problem += "the row of " + one + " " + damaged[0] + " does not match its checksum";
    if (damaged.size() > 1)
      problem += "the rows of " + name + " " + listed(damaged) + " do not match their checksums";
  }
  if (!problem.empty()) return problem;
  const Seal seal = seal_in(database);
  if (found == seal) return "";
  if (const std::int64_t missing = seal.row_count - found.row_count; missing > 0)
    return std::to_string(missing) + " of its " + count_text(seal.row_count, "row") +
           (missing == 1 ? " is" : " are") + " missing";
  return "each of its rows is sound, but together they are not what was written last";
}

/// Does this folder have folders of trials, which have run or are about to?
bool has_trials(const fs::path& folder) {
  std::error_code none;
  return !fs::is_empty(folder / "trials", none) && !none;
}

/// The format in page 1 of the database whose log has these frames; -1 if there is no sound page 1.
int stated_format(const fs::path& file, const LogFrames& log) {
  std::string page(kUserVersionAt + 4, '\0');
  InputFile(file).read(page.data(), static_cast<std::streamsize>(page.size()));  // a short file has zeros
  for (const LogFrame& frame : log.frames)
    if (frame.page == 1 && frame.bytes.starts_with(kFileMagic))
      page = frame.bytes.substr(0, kUserVersionAt + 4);
  if (!page.starts_with(kFileMagic)) return -1;
  return static_cast<int>(word_at(page, kUserVersionAt));
}

/// Sets `has_checksums` as soon as it is known.
int format_of_sound(SQLite::Database& database, const fs::path& folder, bool& has_checksums) {
  const int format = database.execAndGet("PRAGMA user_version").getInt();
  const std::string schema = schema_in(database);
  const bool is_todays = schema == expected_schema();
  if (is_todays && format != kSweepFormat)
    throw DamagedDatabase("it says that its format is " + std::to_string(format) +
                              ", and has the tables of format " + std::to_string(kSweepFormat),
                          true);
  if (format < kEmptyFormat || format > kSweepFormat)
    throw Error("it was written by another version of hookline (format " + std::to_string(format) + ")");
  if (format == kSweepFormat && !is_todays)
    throw DamagedDatabase("its tables are not as they were made", true);
  if (format == kEmptyFormat) {
    if (!schema.empty()) throw DamagedDatabase("it says that it is empty, and has tables", true);
    if (has_trials(folder)) throw DamagedDatabase("it is empty, though trials have run", true);
  } else if (format != kSweepFormat && database.tableExists(kSealTable.name)) {
    throw DamagedDatabase("it says that its format is " + std::to_string(format) + ", and has a seal", true);
  }
  has_checksums = format_has_checksums(format);
  if (const std::string problem = problem_of_structure(database); !problem.empty())
    throw DamagedDatabase(problem, has_checksums);
  if (format != kSweepFormat) return format;
  std::string problem;
  try {
    problem = problem_of_rows(database);
  } catch (const Error& error) {  // the seal is bad
    problem = error.what();
  }
  if (!problem.empty()) throw DamagedDatabase(problem, true);
  return format;
}

}  // namespace

bool format_has_checksums(int format) { return format == kSweepFormat || format == kEmptyFormat; }

bool is_there(const fs::path& file) {
  for (const char* suffix : kCompanions) {
    const fs::path beside = file.string() + suffix;
    const RegularFile found = open_regular(beside, O_PATH);
    if (found.descriptor >= 0) ::close(found.descriptor);
    if (found.problem == FileProblem::directory || found.problem == FileProblem::not_regular)
      throw NoDatabaseFile("SQLite keeps a file of its own as '" + beside.string() + "', and " + found.why);
  }
  // With O_PATH, because closing an ordinary descriptor of the file would drop this process's locks on it.
  const RegularFile found = open_regular(file, O_PATH);
  if (found.descriptor >= 0) ::close(found.descriptor);
  if (found.problem == FileProblem::directory || found.problem == FileProblem::not_regular)
    throw NoDatabaseFile(found.why);
  if (found.problem != FileProblem::missing) return true;
  if (has_trials(file.parent_path())) throw MissingDatabase();
  return false;
}

void expect_sound_log(const fs::path& file) {
  const std::string name = file.string() + "-wal";
  InputFile in(name, kMostLogBytes);
  if (in.problem() == FileProblem::missing) return;
  const std::string log = in.read_all();
  if (in.problem() != FileProblem::none)
    throw UnreadDatabase("'" + name + "' can't be read: " + in.why() +
                         "; put that right, and run the command again");
  const LogFrames frames = frames_in(log);
  if (frames.damage.empty()) return;
  const int format = stated_format(file, frames);
  throw DamagedDatabase("SQLite's log of what was written last, '" + name + "': " + frames.damage,
                        format < 0 || format_has_checksums(format));
}

void expect_trials(SQLite::Database& database, const fs::path& folder, int format) {
  if (!has_trials(folder) || !database.tableExists(kTrialsTable.name)) return;
  if (database.execAndGet("SELECT count(*) FROM trials WHERE position >= 0").getInt64() == 0)
    throw DamagedDatabase("it has no trials, though trials have run", format_has_checksums(format));
}

bool is_damage(const SQLite::Exception& error) {
  return error.getErrorCode() == SQLITE_NOTADB || error.getErrorCode() == SQLITE_CORRUPT ||
         error.getErrorCode() == SQLITE_ERROR || error.getErrorCode() == SQLITE_FORMAT ||
         error.getErrorCode() == SQLITE_SCHEMA || error.getErrorCode() == SQLITE_TOOBIG;
}

int checked_format(SQLite::Database& database, const fs::path& folder) {
  bool has_checksums = true;
  try {
    return format_of_sound(database, folder, has_checksums);
  } catch (const SQLite::Exception& error) {
    if (!is_damage(error)) throw;
    throw DamagedDatabase(std::string("SQLite can't read it: ") + error.what(), has_checksums);
  }
}

}  // namespace hookline
