#include "launcher/sweep/state.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "launcher/process/file_url.h"
#include "launcher/sweep/database/check.h"
#include "launcher/sweep/database/salvage.h"
#include "launcher/sweep/database/seal.h"
#include "launcher/sweep/database/tables.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using SortedJson = nlohmann::json;

constexpr int kFormer = -1;          // position of a trial from an earlier plan
constexpr int kPatienceMs = 10'000;  // for a reader, such as a report in progress

constexpr const char* kRepairIt =
    "; run the sweep with --repair: it copies the damaged file, keeps every sound row, and reruns the "
    "trials whose rows are lost";
constexpr const char* kBeginAnew =
    "; rename the sweep's folder and begin the sweep anew: everything that trials have logged stays in "
    "trials/ "
    "of the renamed folder";
constexpr const char* kBringItBack =
    "; put the file back, or run the sweep with --repair: it makes a new one, runs the trials again, and "
    "keeps "
    "what they left behind, as trials/ID.1";
constexpr const char* kMoveItAside = "; move it aside, and put the sweep's own file back if there was one";
constexpr const char* kAfterFailedRepair =
    "; remove what stands in its way and repair again, or rename the sweep's folder and begin the sweep "
    "anew: "
    "everything that trials have logged stays in trials/ of the renamed folder";
constexpr const char* kFile = "state.sqlite";
constexpr const char* kBegan = "began";
constexpr const char* kSame = "same";

/// Facts that are strings, with the names under which they are stored.
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
  throw Error("it holds a trial with the unknown status '" + name + "'");
}

/// A file beside the database that is needed to read what a sweep has written: the journal of a change in
/// progress, also of a killed sweep, or a log that an earlier version left. Empty if there is none.
fs::path needed_beside(const fs::path& file) {
  for (const char* suffix : {"-journal", "-wal"}) {
    std::error_code none;
    const fs::path beside = file.string() + suffix;
    const std::uintmax_t bytes = fs::file_size(beside, none);
    if (!none && bytes > 0) return beside;
  }
  return {};
}

/// If this changes, a sweep has written to its file, or is about to.
struct OnDisk {
  fs::file_time_type written;
  fs::path beside;
  bool operator==(const OnDisk&) const = default;
};

OnDisk on_disk(const fs::path& file) { return {fs::last_write_time(file), needed_beside(file)}; }

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
  explicit Rows(const fs::path& file, bool is_repaired = false)
      : is_new(is_new_and_sound(file)),
        database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kPatienceMs) {
    // When SQLite closes the database, it merges the log beside it, state.sqlite-wal, into it. It must not do
    // that if the database is damaged.
    keep_log_at_close(true);
    const int format = is_new ? kEmptyFormat : checked_format(database, file.parent_path());
    if (!is_repaired) expect_trials(database, file.parent_path(), format);
    if (sqlite3_db_readonly(database.getHandle(), "main") == 1 && access(file.c_str(), W_OK) == 0)
      throw DamagedDatabase("SQLite won't write it: its header is not as it was written",
                            format_has_checksums(format));
    keep_log_at_close(false);
    // No write-ahead log: SQLite silently drops what follows damage in one. In the database itself, the seal
    // covers everything.
    if (const std::string mode = database.execAndGet("PRAGMA journal_mode = DELETE").getString();
        mode != "delete")
      throw Error("SQLite keeps its journal in mode '" + mode + "'");
    for (const char* pragma : {"synchronous = FULL", "secure_delete = ON"})
      database.exec(std::string("PRAGMA ") + pragma);
    if (format == kSweepFormat) return;
    SQLite::Transaction whole(database);
    if (format == kEmptyFormat)
      create_tables(database);
    else
      upgrade_tables(database, format);
    seal_all(database);
    whole.commit();
  }

  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  static bool is_new_and_sound(const fs::path& file) {
    if (!is_there(file)) return true;
    expect_sound_log(file);
    return false;
  }

  void keep_log_at_close(bool keep) {
    sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0, nullptr);
  }

  static void keep(SQLite::Database& database, const SweepFacts& facts) {
    SQLite::Statement put(database, "INSERT OR REPLACE INTO facts (name, value, checksum) VALUES (?, ?, '')");
    SQLite::Statement add(database, "INSERT OR IGNORE INTO facts (name, value, checksum) VALUES (?, ?, '')");
    const auto keep_as = [](SQLite::Statement& row, const char* name, const std::string& value) {
      row.reset();
      row.bind(1, name);
      row.bind(2, value);
      row.exec();
    };
    for (const auto& [name, text] : kTexts) keep_as(name == kBegan ? add : put, name, facts.*text);
    keep_as(put, kSame, SortedJson(facts.same).dump());
  }

  static SweepFacts facts_in(SQLite::Database& database) {
    SweepFacts facts;
    std::map<std::string, std::string> found;
    SQLite::Statement rows(database, "SELECT name, value FROM facts");
    while (rows.executeStep()) found[rows.getColumn(0).getString()] = rows.getColumn(1).getString();
    for (const auto& [name, text] : kTexts)
      if (const auto value = found.find(name); value != found.end()) facts.*text = value->second;
    if (const auto same = found.find(kSame); same != found.end())
      facts.same = SortedJson::parse(same->second).get<Assignments>();
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
      trial.planned.values = SortedJson::parse(rows.getColumn(1).getString()).get<Assignments>();
      trial.planned.program =
          SortedJson::parse(rows.getColumn(2).getString()).get<std::vector<std::string>>();
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

  static SweepRecord record_in(SQLite::Database& database, const fs::path& folder) {
    const SQLite::Transaction one_moment(database);
    const int format = checked_format(database, folder);
    if (format == kEmptyFormat) return {};
    expect_trials(database, folder, format);
    return {format == kFormatWithoutFacts ? SweepFacts() : facts_in(database), trials_in(database)};
  }

  /// Did SQLite fail because it is not allowed to create or change a file?
  static bool is_refused(const std::exception& error) {
    const auto* of_sqlite = dynamic_cast<const SQLite::Exception*>(&error);
    return of_sqlite &&
           (of_sqlite->getErrorCode() == SQLITE_CANTOPEN || of_sqlite->getErrorCode() == SQLITE_READONLY);
  }

  static bool may_not_read(const fs::path& file) {
    return access(file.c_str(), R_OK) != 0 && errno == EACCES;
  }

  [[noreturn]] static void fail(const fs::path& file, bool is_damaged, const std::string& what,
                                const std::string& advice) {
    throw Error("the state of the sweep, '" + file.string() + "', " +
                (is_damaged ? "is damaged: " : "can't be used: ") + what + advice);
  }

  /// Replaces a damaged database by one with its sound rows. If that fails, advises removing the obstacle
  /// before another repair, or beginning the sweep anew.
  static Salvage repaired(const fs::path& file, const std::string& damage, std::unique_ptr<Rows>& rows) {
    try {
      Salvage salvaged = salvage(file);
      rows = std::make_unique<Rows>(file, /*is_repaired=*/true);
      return salvaged;
    } catch (const std::exception& error) {
      fail(file, true, damage + "; the repair has failed: " + error.what(), kAfterFailedRepair);
    }
  }

  /// Calls `act`, and names the file in its errors.
  template <class Act>
  static auto named(const fs::path& file, const Act& act) {
    try {
      return act();
    } catch (const MissingDatabase&) {
      throw Error("the state of the sweep, '" + file.string() + "', is missing, though '" +
                  (file.parent_path() / "trials").string() + "' has trials" + kBringItBack);
    } catch (const DamagedDatabase& error) {
      fail(file, true, error.what(), error.has_checksums() ? kRepairIt : kBeginAnew);
    } catch (const NoDatabaseFile& error) {
      fail(file, false, error.what(), kMoveItAside);
    } catch (const SQLite::Exception& error) {  // damage, or the machine's fault, such as a full disk
      if (may_not_read(file))
        fail(file, false, "this user may not read it",
             "; ask its owner for access (chmod a+r), or run as its owner");
      fail(file, is_damage(error), error.what(), is_damage(error) ? kRepairIt : "");
    } catch (const UnreadDatabase& error) {
      fail(file, false, error.what(), "");
    } catch (const Error& error) {  // about what it holds
      fail(file, false, error.what(), kBeginAnew);
    } catch (const SortedJson::exception& error) {  // likewise
      fail(file, false, error.what(), kBeginAnew);
    } catch (const std::exception& error) {  // the machine's fault, such as too little memory
      fail(file, false, error.what(), "");
    }
  }

  /// What is damaged, if sound rows can be told from damaged ones; empty if nothing is.
  static std::string damage_in(const fs::path& file) {
    try {
      const Rows sound(file);
      return "";
    } catch (const DamagedDatabase& error) {
      if (!error.has_checksums()) throw;
      return error.what();
    }
  }

  const bool is_new;
  SQLite::Database database;
};

SweepState::SweepState(const fs::path& folder, OnDamage on_damage)
    : lock_(folder, "the sweep's folder"), file_(folder / kFile) {
  const std::string damage =
      on_damage == OnDamage::repair ? Rows::named(file_, [&] { return Rows::damage_in(file_); }) : "";
  if (damage.empty()) {
    Rows::named(file_, [&] { rows_ = std::make_unique<Rows>(file_); });
    return;
  }
  Salvage salvaged = Rows::repaired(file_, damage, rows_);
  repair_ = {damage, std::move(salvaged.kept), std::move(salvaged.ids)};
}

SweepState::~SweepState() = default;

PlanChange SweepState::take(const SweepPlan& plan, const SweepFacts& facts) {
  return Rows::named(file_, [&] {
    SQLite::Database& database = rows_->database;
    PlanChange change;
    SQLite::Transaction whole(database);
    change.is_first = database.execAndGet("SELECT count(*) FROM trials WHERE position >= 0").getInt() == 0;
    database.exec("UPDATE trials SET status = 'waiting', reason = '' WHERE status = 'running'");
    // -2 marks the trials of the old plan. The loop below gives those of the new plan their new position.
    database.exec("UPDATE trials SET position = -2 WHERE position >= 0");
    SQLite::Statement keep(database,
                           "UPDATE trials SET position = ?, key_values = ?, program = ?, repeat = ?, "
                           "is_baseline = ? WHERE id = ?");
    SQLite::Statement was_there(database, "SELECT position FROM trials WHERE id = ?");
    SQLite::Statement add(
        database,
        "INSERT INTO trials (position, key_values, program, repeat, is_baseline, id, status, reason, "
        "seconds, measures, metric_name, ran_well, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, 'waiting', '', 0, '{}', '', 0, '')");
    for (std::size_t i = 0; i < plan.trials.size(); ++i) {
      const PlannedTrial& trial = plan.trials[i];
      was_there.reset();
      was_there.bind(1, trial.id);
      const bool is_known = was_there.executeStep();
      if (!is_known || was_there.getColumn(0).getInt() == kFormer) ++change.added;
      SQLite::Statement& row = is_known ? keep : add;
      row.reset();
      row.bind(1, static_cast<std::int64_t>(i));
      row.bind(2, SortedJson(trial.values).dump());
      row.bind(3, SortedJson(trial.program).dump());
      row.bind(4, trial.repeat);
      row.bind(5, trial.is_baseline ? 1 : 0);
      row.bind(6, trial.id);
      row.exec();
    }
    change.dropped =
        static_cast<std::size_t>(database.exec("UPDATE trials SET position = -1 WHERE position = -2"));
    Rows::keep(database, facts);
    seal_all(database);
    whole.commit();
    return change;
  });
}

std::vector<Trial> SweepState::trials() const {
  return Rows::named(file_, [&] { return Rows::trials_in(rows_->database); });
}

void SweepState::begin(const std::string& id) {
  Rows::named(file_, [&] {
    change_trial(rows_->database, id, [&] {
      SQLite::Statement row(rows_->database, "UPDATE trials SET status = 'running' WHERE id = ?");
      row.bind(1, id);
      row.exec();
    });
  });
}

void SweepState::end(const std::string& id, const TrialResult& result) {
  Rows::named(file_, [&] {
    change_trial(rows_->database, id, [&] {
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
  });
}

void SweepState::reset(const std::string& id) {
  TrialResult none;
  none.status = TrialStatus::waiting;
  end(id, none);
}

bool SweepRecord::is_in(const fs::path& folder) {
  const fs::path file = folder / kFile;
  return SweepState::Rows::named(file, [&] { return is_there(file); });
}

SweepRecord SweepRecord::read(const fs::path& folder) {
  const fs::path file = folder / kFile;
  if (!is_in(folder))
    throw Error("'" + folder.string() + "' is not a folder of a sweep's results: it has no " + kFile);
  return SweepState::Rows::named(file, [&] {
    while (is_there(file)) {
      const OnDisk before = on_disk(file);
      const bool is_whole = before.beside.empty();
      if (!is_whole) expect_sound_log(file);
      // A whole file is read as one that nobody changes. SQLite then creates no files beside it: in a
      // read-only folder it could not, and elsewhere it would leave them behind. A journal that a kill has
      // left must be played back, and that takes a connection that may write.
      const char* const how = is_whole ? "?immutable=1" : "";
      const int mode = !is_whole && before.beside.string().ends_with("-journal") ? SQLite::OPEN_READWRITE
                                                                                 : SQLite::OPEN_READONLY;
      try {
        SQLite::Database database(file_url(file) + how, mode | SQLite::OPEN_URI, kPatienceMs);
        SweepRecord record = SweepState::Rows::record_in(database, folder);
        if (!is_whole || on_disk(file) == before) return record;
      } catch (const std::exception& error) {
        if (on_disk(file) != before) continue;  // a sweep has written in the meantime
        if (is_whole || !SweepState::Rows::is_refused(error)) throw;
        throw SQLite::Exception("it can't be read without '" + before.beside.string() +
                                    "', which SQLite uses only in a folder that you may write to; copy '" +
                                    folder.string() + "' to such a folder, and run the command on the copy",
                                SQLITE_READONLY);
      }
    }
    throw UnreadDatabase("it vanished while it was being read; run the command again");
  });
}

}  // namespace hookline
