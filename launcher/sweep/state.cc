#include "launcher/sweep/state.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "hooks/error.h"
#include "launcher/supervise/file_url.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using Json = nlohmann::json;

constexpr int kFormat = 2;
constexpr int kWithoutFacts = 1;
constexpr int kFormer = -1;          // the position of a trial of a former plan
constexpr int kPatienceMs = 10'000;  // for a reader, such as a report that is being made

constexpr const char* kTables =
    "CREATE TABLE trials ("
    "  id TEXT PRIMARY KEY, position INTEGER NOT NULL,"  // -1: of a former plan
    "  key_values TEXT NOT NULL, program TEXT NOT NULL, repeat INTEGER NOT NULL, is_baseline INTEGER NOT "
    "NULL,"
    "  status TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL, metric REAL, step INTEGER,"
    "  measures TEXT NOT NULL, metric_name TEXT NOT NULL, ran_well INTEGER NOT NULL)";
constexpr const char* kFactsTable = "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)";
constexpr const char* kFile = "state.sqlite";
constexpr const char* kBegan = "began";
constexpr const char* kSame = "same";

/// Facts that are texts, by the names that they are kept under.
constexpr std::pair<const char*, std::string SweepFacts::*> kTexts[] = {
    {"name", &SweepFacts::name},
    {"command", &SweepFacts::command},
    {"machine", &SweepFacts::machine},
    {kBegan, &SweepFacts::began},
    {"metric", &SweepFacts::metric},
    {"goal", &SweepFacts::goal},
    {"metric_value", &SweepFacts::metric_value}};

TrialStatus status_of(const std::string& name) {
  for (const TrialStatus each : {TrialStatus::waiting, TrialStatus::running, TrialStatus::done,
                                 TrialStatus::failed, TrialStatus::stopped})
    if (name_of(each) == name) return each;
  throw Error("it holds a trial that is '" + name + "'");
}

/// What a sweep has written last. SQLite puts it into the file when the sweep ends, and leaves it there if it is killed.
fs::path log_of(const fs::path& file) { return file.string() + "-wal"; }

/// By which one sees that a sweep has written to its file, or has begun or ended.
struct OnDisk {
  fs::file_time_type written;
  bool has_log = false;
  bool operator==(const OnDisk&) const = default;
};

OnDisk on_disk(const fs::path& file) {
  std::error_code none;
  const std::uintmax_t log_bytes = fs::file_size(log_of(file), none);
  return {fs::last_write_time(file), !none && log_bytes > 0};
}

}  // namespace

std::string name_of(TrialStatus status) {
  switch (status) {
    case TrialStatus::waiting:
      return "waiting";
    case TrialStatus::running:
      return "running";
    case TrialStatus::done:
      return "done";
    case TrialStatus::failed:
      return "failed";
    case TrialStatus::stopped:
      return "stopped";
  }
  return "";
}

struct SweepState::Rows {
  explicit Rows(const fs::path& file)
      : database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kPatienceMs) {
    database.exec("PRAGMA journal_mode = WAL");
    database.exec("PRAGMA synchronous = FULL");
    const int format = format_of(database);
    if (format == kFormat) return;
    SQLite::Transaction whole(database);
    if (format == 0) database.exec(kTables);
    database.exec(kFactsTable);
    database.exec("PRAGMA user_version = " + std::to_string(kFormat));
    whole.commit();
  }

  /// 0: there is nothing in it. Throws Error for one that is of another version.
  static int format_of(SQLite::Database& database) {
    const int format = database.execAndGet("PRAGMA user_version").getInt();
    if (format != 0 && format != kWithoutFacts && format != kFormat)
      throw Error("it was written by another version of hookline (format " + std::to_string(format) + ")");
    return format;
  }

  static void keep(SQLite::Database& database, const SweepFacts& facts) {
    SQLite::Statement put(database, "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)");
    SQLite::Statement add(database, "INSERT OR IGNORE INTO facts (name, value) VALUES (?, ?)");
    const auto keep_as = [](SQLite::Statement& row, const char* name, const std::string& value) {
      row.reset();
      row.bind(1, name);
      row.bind(2, value);
      row.exec();
    };
    for (const auto& [name, text] : kTexts) keep_as(name == kBegan ? add : put, name, facts.*text);
    keep_as(put, kSame, Json(facts.same).dump());
  }

  static SweepFacts facts_in(SQLite::Database& database) {
    SweepFacts facts;
    std::map<std::string, std::string> found;
    SQLite::Statement rows(database, "SELECT name, value FROM facts");
    while (rows.executeStep()) found[rows.getColumn(0).getString()] = rows.getColumn(1).getString();
    for (const auto& [name, text] : kTexts)
      if (const auto value = found.find(name); value != found.end()) facts.*text = value->second;
    if (const auto same = found.find(kSame); same != found.end())
      facts.same = Json::parse(same->second).get<Assignments>();
    return facts;
  }

  static std::vector<Trial> trials_in(SQLite::Database& database) {
    std::vector<Trial> trials;
    SQLite::Statement rows(
        database,
        "SELECT id, key_values, program, repeat, is_baseline, status, reason, seconds, metric, step, "
        "measures, metric_name, ran_well FROM trials WHERE position >= 0 ORDER BY position");
    while (rows.executeStep()) {
      Trial trial;
      trial.planned.id = rows.getColumn(0).getString();
      trial.planned.values = Json::parse(rows.getColumn(1).getString()).get<Assignments>();
      trial.planned.program = Json::parse(rows.getColumn(2).getString()).get<std::vector<std::string>>();
      trial.planned.repeat = rows.getColumn(3).getInt64();
      trial.planned.is_baseline = rows.getColumn(4).getInt() != 0;
      trial.result.status = status_of(rows.getColumn(5).getString());
      trial.result.reason = rows.getColumn(6).getString();
      trial.result.seconds = rows.getColumn(7).getDouble();
      if (!rows.getColumn(8).isNull()) trial.result.metric = rows.getColumn(8).getDouble();
      if (!rows.getColumn(9).isNull()) trial.result.step = rows.getColumn(9).getInt64();
      trial.result.measures = rows.getColumn(10).getString();
      trial.result.judged_by = rows.getColumn(11).getString();
      trial.result.ran_well = rows.getColumn(12).getInt() != 0;
      trials.push_back(std::move(trial));
    }
    return trials;
  }

  static SweepRecord record_in(SQLite::Database& database) {
    const SQLite::Transaction one_moment(database);
    const int format = format_of(database);
    if (format == 0) return {};
    return {format == kWithoutFacts ? SweepFacts() : facts_in(database), trials_in(database)};
  }

  /// Was SQLite to make or change a file where it may not?
  static bool is_refused(const std::exception& error) {
    const auto* of_sqlite = dynamic_cast<const SQLite::Exception*>(&error);
    return of_sqlite &&
           (of_sqlite->getErrorCode() == SQLITE_CANTOPEN || of_sqlite->getErrorCode() == SQLITE_READONLY);
  }

  /// Otherwise it is the machine's trouble, such as a full disk, after which the state is as it was.
  static bool is_damage(const std::exception& error) {
    const auto* of_sqlite = dynamic_cast<const SQLite::Exception*>(&error);
    return !of_sqlite || of_sqlite->getErrorCode() == SQLITE_NOTADB ||
           of_sqlite->getErrorCode() == SQLITE_CORRUPT || of_sqlite->getErrorCode() == SQLITE_ERROR;
  }

  /// Calls `act`, and names the file in what goes wrong.
  template <class Act>
  static auto named(const fs::path& file, const Act& act) {
    try {
      return act();
    } catch (const std::exception& error) {  // of SQLite, or of what it holds
      throw Error("the state of the sweep, '" + file.string() + "', can't be used: " + error.what() +
                  (is_damage(error)
                       ? "; move its folder aside, where all that trials have logged stays in trials/, "
                         "and begin the sweep anew"
                       : ""));
    }
  }

  SQLite::Database database;
};

SweepState::SweepState(const fs::path& folder) : lock_(folder, "the sweep's folder"), file_(folder / kFile) {
  Rows::named(file_, [&] { rows_ = std::make_unique<Rows>(file_); });
}

SweepState::~SweepState() = default;

PlanChange SweepState::take(const SweepPlan& plan, const SweepFacts& facts) {
  return Rows::named(file_, [&] {
    SQLite::Database& database = rows_->database;
    PlanChange change;
    SQLite::Transaction whole(database);
    change.is_first = database.execAndGet("SELECT count(*) FROM trials WHERE position >= 0").getInt() == 0;
    database.exec("UPDATE trials SET status = 'waiting', reason = '' WHERE status = 'running'");
    database.exec("UPDATE trials SET position = -2 WHERE position >= 0");  // until the new plan has them too
    SQLite::Statement keep(database,
                           "UPDATE trials SET position = ?, key_values = ?, program = ?, repeat = ?, "
                           "is_baseline = ? WHERE id = ?");
    SQLite::Statement was_there(database, "SELECT position FROM trials WHERE id = ?");
    SQLite::Statement add(
        database,
        "INSERT INTO trials (position, key_values, program, repeat, is_baseline, id, status, reason, "
        "seconds, measures, metric_name, ran_well) VALUES (?, ?, ?, ?, ?, ?, 'waiting', '', 0, '{}', '', 0)");
    for (std::size_t i = 0; i < plan.trials.size(); ++i) {
      const PlannedTrial& trial = plan.trials[i];
      was_there.reset();
      was_there.bind(1, trial.id);
      const bool is_known = was_there.executeStep();
      if (!is_known || was_there.getColumn(0).getInt() == kFormer) ++change.added;
      SQLite::Statement& row = is_known ? keep : add;
      row.reset();
      row.bind(1, static_cast<std::int64_t>(i));
      row.bind(2, Json(trial.values).dump());
      row.bind(3, Json(trial.program).dump());
      row.bind(4, trial.repeat);
      row.bind(5, trial.is_baseline ? 1 : 0);
      row.bind(6, trial.id);
      row.exec();
    }
    change.dropped =
        static_cast<std::size_t>(database.exec("UPDATE trials SET position = -1 WHERE position = -2"));
    Rows::keep(database, facts);
    whole.commit();
    return change;
  });
}

std::vector<Trial> SweepState::trials() const {
  return Rows::named(file_, [&] { return Rows::trials_in(rows_->database); });
}

void SweepState::begin(const std::string& id) {
  Rows::named(file_, [&] {
    SQLite::Statement row(rows_->database, "UPDATE trials SET status = 'running' WHERE id = ?");
    row.bind(1, id);
    row.exec();
  });
}

void SweepState::end(const std::string& id, const TrialResult& result) {
  Rows::named(file_, [&] {
    SQLite::Statement row(
        rows_->database,
        "UPDATE trials SET status = ?, reason = ?, seconds = ?, metric = ?, step = ?, measures = ?, "
        "metric_name = ?, ran_well = ? WHERE id = ?");
    row.bind(1, name_of(result.status));
    row.bind(2, result.reason);
    row.bind(3, result.seconds);
    if (result.metric) row.bind(4, *result.metric);
    if (result.step) row.bind(5, *result.step);
    row.bind(6, result.measures);
    row.bind(7, result.judged_by);
    row.bind(8, result.ran_well ? 1 : 0);
    row.bind(9, id);
    row.exec();
  });
}

void SweepState::reset(const std::string& id) {
  TrialResult none;
  none.status = TrialStatus::waiting;
  end(id, none);
}

bool SweepRecord::is_in(const fs::path& folder) { return fs::exists(folder / kFile); }

SweepRecord SweepRecord::read(const fs::path& folder) {
  const fs::path file = folder / kFile;
  if (!is_in(folder))
    throw Error("'" + folder.string() + "' is no folder of a sweep's results: it has no " + kFile);
  return SweepState::Rows::named(file, [&] {
    while (true) {
      const OnDisk before = on_disk(file);
      // Where nothing is in the log the file is all there is: read as what nobody changes it needs no files of SQLite's
      // beside it, which a folder that can only be read doesn't take, and elsewhere would stay there.
      const char* const how = before.has_log ? "" : "?immutable=1";
      SQLite::Database database(file_url(file) + how, SQLite::OPEN_READONLY | SQLite::OPEN_URI, kPatienceMs);
      try {
        SweepRecord record = SweepState::Rows::record_in(database);
        if (before.has_log || on_disk(file) == before) return record;
      } catch (const std::exception& error) {
        if (on_disk(file) != before) continue;  // a sweep has begun or ended meanwhile
        if (!before.has_log || !SweepState::Rows::is_refused(error)) throw;
        throw SQLite::Exception("what the sweep wrote last is still in '" + log_of(file).string() +
                                    "', and to read that takes a folder that you may write to; copy '" +
                                    folder.string() + "' to where you may, and name the copy",
                                SQLITE_READONLY);
      }
    }
  });
}

}  // namespace hookline
