#include "launcher/sweep/database/salvage.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/regular_file.h"
#include "checkpoint/durable_file.h"
#include "launcher/sweep/database/check.h"
#include "launcher/sweep/database/log_frames.h"
#include "launcher/sweep/database/seal.h"
#include "launcher/sweep/database/tables.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

// See https://www.sqlite.org/fileformat2.html.
constexpr char kTableLeaf = 0x0d;  // the first byte of a page with rows of a table
constexpr std::size_t kWriteVersionAt = 18, kReadVersionAt = 19;  // in the file's header
constexpr char kWithoutLog = 1;                                   // the value of both without a log
constexpr std::size_t kPageCountAt = 28;                          // 4 bytes, most significant first
constexpr std::int64_t kMostInPage = 512;                         // more rows than fit in a page
constexpr std::uintmax_t kOwnPages = 3;  // of a database with two empty tables: the schema, and one page each
constexpr const char* kLogSuffix = "-wal";

fs::path with_suffix(const fs::path& file, const std::string& suffix) { return file.string() + suffix; }

/// Removes what SQLite keeps beside a database. Throws filesystem_error.
void remove_companions(const fs::path& file) {
  for (const char* suffix : kCompanions) fs::remove(with_suffix(file, suffix));
}

/// A temporary database, which the destructor deletes.
struct Scratch {
  explicit Scratch(fs::path name) : file(std::move(name)) {
    fs::remove(file);
    remove_companions(file);
  }
  ~Scratch() {
    std::error_code none;  // ignored: a file that stays is useless, but harmless
    fs::remove(file, none);
    for (const char* suffix : kCompanions) fs::remove(with_suffix(file, suffix), none);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  fs::path file;
};

bool has_bytes(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  return !error && bytes > 0;
}

/// The file's bytes; empty if there is no file.
std::string bytes_of(const fs::path& file) {
  return has_bytes(file) ? read_regular_file(file, InputFile::kAnySize) : "";
}

/// Is `copy` a complete copy of the file and its log?
bool is_copy(const fs::path& copy, const fs::path& file) {
  if (!fs::is_regular_file(copy)) return false;
  for (const char* suffix : {"", kLogSuffix})
    if (bytes_of(with_suffix(copy, suffix)) != bytes_of(with_suffix(file, suffix))) return false;
  return true;
}

/// Copies the file, under a free name beside it; a missing file becomes an empty copy. If a failed repair has
/// made the copy already, returns that one.
fs::path keep_copy(const fs::path& file) {
  fs::path kept;
  for (int n = 1;; ++n) {
    kept = with_suffix(file, ".damaged-" + std::to_string(n));
    if (!fs::exists(kept)) break;
    if (is_copy(kept, file)) return kept;
  }
  if (has_bytes(with_suffix(file, kLogSuffix)))
    write_durably(with_suffix(kept, kLogSuffix), bytes_of(with_suffix(file, kLogSuffix)));
  write_durably(kept, bytes_of(file));
  sync_folder(kept.parent_path());
  return kept;
}

/// A database whose tables have no index, so that any page can be made the root page of a table.
class Pages {
 public:
  /// `file`: a copy, which is changed.
  explicit Pages(fs::path file) : file_(std::move(file)), first_page_(made_first_page()) {
    if (has_bytes(with_suffix(file_, kLogSuffix))) take_in_log();
    replace_first_page();
    bytes_ = read_regular_file(file_, InputFile::kAnySize);
    database_.emplace(file_.string(), SQLite::OPEN_READWRITE);
    for (const char* pragma : {"journal_mode = OFF", "synchronous = OFF", "writable_schema = ON"})
      database_->exec(std::string("PRAGMA ") + pragma);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(bytes_.size()) / kPageBytes; }

  bool has_rows(std::int64_t page) const {
    return bytes_[static_cast<std::size_t>((page - 1) * kPageBytes)] == kTableLeaf;
  }

  /// Makes this page the whole content of each table.
  void choose(std::int64_t page) {
    database_->exec("UPDATE sqlite_master SET rootpage = " + std::to_string(page));
    database_->exec("PRAGMA writable_schema = RESET");
    database_->exec("PRAGMA writable_schema = ON");
  }

  SQLite::Database& database() { return *database_; }

 private:
  std::string made_first_page() const {
    const Scratch empty(with_suffix(file_, "-empty"));
    {
      SQLite::Database database(empty.file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      database.exec("PRAGMA page_size = " + std::to_string(kPageBytes));
      database.exec("PRAGMA journal_mode = OFF");
      database.exec(
          "CREATE TABLE trials (id TEXT, position INTEGER, key_values TEXT, program TEXT, repeat INTEGER, "
          "is_baseline INTEGER, status TEXT, reason TEXT, seconds REAL, metric REAL, step INTEGER, measures "
          "TEXT, "
          "metric_name TEXT, ran_well INTEGER, checksum TEXT)");
      database.exec("CREATE TABLE facts (name TEXT, value TEXT, checksum TEXT)");
    }
    return read_regular_file(empty.file, InputFile::kAnySize).substr(0, kPageBytes);
  }

  void replace_first_page() {
    // SQLite refuses a schema with tables beyond the end of the file. The missing part of a page that was cut
    // off is zero.
    const std::uintmax_t pages = std::max(kOwnPages, (fs::file_size(file_) + kPageBytes - 1) / kPageBytes);
    fs::resize_file(file_, pages * kPageBytes);
    std::string page = first_page_;
    page[kWriteVersionAt] = page[kReadVersionAt] = kWithoutLog;
    for (std::size_t i = 0; i < 4; ++i) page[kPageCountAt + i] = static_cast<char>(pages >> (8 * (3 - i)));
    std::fstream out(file_, std::ios::binary | std::ios::in | std::ios::out);
    out.write(page.data(), static_cast<std::streamsize>(page.size()));
    out.close();
    if (!out) throw Error("'" + file_.string() + "' can't be written");
  }

  /// Puts the log's last version of each page at that page's position, so that rows that continue on other
  /// pages can be read whole. The versions that this replaces go to the end of the file, the newest first. Of
  /// several versions of a row, the first sound one counts.
  void take_in_log() {
    const std::string log = bytes_of(with_suffix(file_, kLogSuffix));
    for (const char* suffix : kCompanions) fs::remove(with_suffix(file_, suffix));
    const std::vector<LogFrame> frames = frames_in(log).frames;
    const std::string before = bytes_of(file_);
    const std::size_t most = before.size() / kPageBytes + 1 + frames.size();
    std::string pages = before, replaced;
    std::set<std::size_t> seen;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      if (frame->bytes.size() != kPageBytes || frame->page == 0 || frame->page > most) continue;
      if (!seen.insert(frame->page).second) {
        replaced += frame->bytes;
        continue;
      }
      const std::size_t at = (frame->page - std::size_t{1}) * kPageBytes;
      if (pages.size() < at + kPageBytes) pages.resize(at + kPageBytes);
      pages.replace(at, kPageBytes, frame->bytes);
    }
    pages.resize((pages.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
    for (const std::size_t page : seen)
      if (const std::size_t at = (page - 1) * kPageBytes; at + kPageBytes <= before.size())
        replaced += before.substr(at, kPageBytes);
    write_durably(file_, pages + replaced);
  }

  fs::path file_;
  std::string first_page_, bytes_;
  std::optional<SQLite::Database> database_;
};

/// Copies the sound rows of `table`.
class SoundRows {
 public:
  SoundRows(const SealedTable& table, SQLite::Database& from, SQLite::Database& to)
      : table_(table),
        select_("SELECT " + table.columns_and_checksum() + ", rowid FROM " + table.name),
        from_(from),
        put_(
            to, std::string("INSERT OR IGNORE INTO ") + table.name + " (" + table.columns_and_checksum() +
                    ") VALUES (?" +
                    [&] {
                      std::string more;
                      for (int i = 0; i < table.column_count; ++i) more += ", ?";
                      return more;
                    }() +
                    ")") {}

  /// Copies from the chosen page: from both ends until a row can't be read, then row by row in between.
  void take() {
    std::array<std::optional<std::int64_t>, 2> reached;
    for (const bool backward : {false, true})
      if (take_all(select_ + " ORDER BY rowid" + (backward ? " DESC" : ""), reached.at(backward))) return;
    if (!reached[0] && !reached[1]) return;
    const std::int64_t first = reached[0] ? *reached[0] + 1 : *reached[1] - kMostInPage;
    const std::int64_t end = reached[1] ? *reached[1] : *reached[0] + kMostInPage;
    for (std::int64_t row = first; row < std::min(end, first + kMostInPage); ++row) {
      std::optional<std::int64_t> none;
      take_all(select_ + " WHERE rowid = " + std::to_string(row), none);
    }
  }

 private:
  /// Is there a further row? Nothing if it can't be read.
  static std::optional<bool> next(SQLite::Statement& rows) {
    try {
      return rows.executeStep();
    } catch (const SQLite::Exception& error) {
      if (!is_damage(error)) throw;
      return std::nullopt;
    }
  }

  /// Copies the sound rows that `select` finds; returns whether it reached the end. `reached`: the last row
  /// that it reached.
  bool take_all(const std::string& select, std::optional<std::int64_t>& reached) {
    SQLite::Statement rows(from_, select);
    while (true) {
      const auto is_row = next(rows);
      if (!is_row) return false;
      if (!*is_row) return true;
      reached = rows.getColumn(table_.column_count + 1).getInt64();
      if (is_sound(table_, rows)) put(rows);
    }
  }

  void put(SQLite::Statement& row) {
    put_.reset();
    for (int i = 0; i <= table_.column_count; ++i) {
      const SQLite::Column column = row.getColumn(i);
      if (column.isInteger())
        put_.bind(i + 1, column.getInt64());
      else if (column.isFloat())
        put_.bind(i + 1, column.getDouble());
      else if (column.isNull())
        put_.bind(i + 1);
      else
        put_.bind(i + 1, column.getString());
    }
    put_.exec();
  }

  const SealedTable& table_;
  std::string select_;
  SQLite::Database& from_;
  SQLite::Statement put_;
};

std::set<std::string> ids_in(SQLite::Database& database) {
  std::set<std::string> ids;
  SQLite::Statement rows(database, "SELECT id FROM trials");
  while (rows.executeStep()) ids.insert(rows.getColumn(0).getString());
  return ids;
}

/// Makes a database at `file` with the sound rows of `pages`; returns the ids of the trials among them.
std::set<std::string> copy_sound_rows(Pages& pages, const fs::path& file) {
  SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec("PRAGMA page_size = " + std::to_string(kPageBytes));
  SQLite::Transaction whole(database);
  create_tables(database);
  SoundRows trials(kTrialsTable, pages.database(), database), facts(kFactsTable, pages.database(), database);
  for (std::int64_t page = 2; page <= pages.count(); ++page) {
    if (!pages.has_rows(page)) continue;
    pages.choose(page);
    trials.take();
    facts.take();
  }
  seal_all(database);
  whole.commit();
  return ids_in(database);
}

}  // namespace

Salvage salvage(const fs::path& file) {
  Salvage result;
  const bool is_there = fs::exists(file);
  if (is_there || has_bytes(with_suffix(file, kLogSuffix))) result.kept = keep_copy(file);
  const Scratch scratch(with_suffix(file, ".scratch")), whole(with_suffix(file, ".repaired"));
  write_durably(scratch.file, bytes_of(file));
  if (const std::string log = bytes_of(with_suffix(file, kLogSuffix)); !log.empty())
    write_durably(with_suffix(scratch.file, kLogSuffix), log);
  Pages pages(scratch.file);
  result.ids = copy_sound_rows(pages, whole.file);
  if (is_there) fs::permissions(whole.file, fs::status(file).permissions());
  // A log belongs to the file that it was written beside, and must be gone before another file takes its
  // place.
  remove_companions(file);
  sync_folder(file.parent_path());
  fs::rename(whole.file, file);
  sync_folder(file.parent_path());
  return result;
}

}  // namespace hookline
