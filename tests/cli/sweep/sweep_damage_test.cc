// Damage to a sweep's database: it is detected and reported, and intact rows are kept.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/run_hookline.h"
#include "cli/sweep/sweep_rows.h"
#include "launcher/sweep/database/seal.h"
#include "launcher/sweep/database/tables.h"
#include "launcher/sweep/state.h"
#include "support/failure.h"
#include "support/sanitized.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::lines_in;
using ::testing::Not;
using testing::ProcessResult;
using testing::read_file;
using testing::Sandbox;
using ::testing::StartsWith;
using testing::timeless;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kTrials = 60;  // enough for several pages of rows
constexpr std::size_t kFacts = 8;    // rows of facts
constexpr int kRandomFlips = testing::kSanitized ? 8 : 60;
constexpr char kTableLeaf = 0x0d, kTableInterior = 0x05, kIndexLeaf = 0x0a;
constexpr const char* kState = "results/state.sqlite";
constexpr const char* kAdvice =
    "; run the sweep with --repair: it copies the damaged file, keeps every sound row, and reruns the "
    "trials whose rows are lost\n";

/// A finished sweep in which some trials failed; all others have measurements.
class EndedSweep {
 public:
  EndedSweep() {
    static const EndedSweep first{Run{}};
    fs::copy(
        first.sandbox.folder.path(), sandbox.folder.path(),
        fs::copy_options::recursive | fs::copy_options::copy_symlinks | fs::copy_options::overwrite_existing);
    ended = first.ended;
    reported = first.reported;
    bytes = first.bytes;
  }

 private:
  struct Run {};
  explicit EndedSweep(Run) {
    sandbox.script(
        "train",
        "echo \"$2\" >> starts.log\n"
        "[ $(($2 % 20)) = 7 ] && { echo 'it fell over' >&2; exit 3; }\n"
        "for s in 1 2 3; do echo \"{\\\"step\\\": $s, \\\"score\\\": $(($2 * 37 % 101 * s))}\"; done >> "
        "$HOOKLINE_RUN_DIR/metrics.jsonl\n"
        "echo \"{\\\"step_seconds\\\": 0.$2, \\\"bytes_per_step\\\": 1000}\" > "
        "$HOOKLINE_RUN_DIR/summary.json\n");
    sandbox.folder.write("s.toml",
                         "[sweep]\nprogram = [\"./train\"]\nmetric = \"score\"\n"
                         "[grid]\nargs.a = { from = 1, to = " +
                             std::to_string(kTrials) + " }\n");
    ended = sweep();
    EXPECT_EQ(ended.exit_code, 1) << ended.err;
    reported = report();
    EXPECT_EQ(reported.exit_code, 0) << reported.err;
    EXPECT_EQ(lines_in(reported.out), kTrials);
    ended = sweep();  // once more: like the runs that are compared with it, this one finds all trials done
    bytes = sandbox.read(kState);
  }

 public:
  ProcessResult sweep(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> command = {"sweep", "s.toml", "--output", "results", "--json"};
    command.insert(command.end(), flags.begin(), flags.end());
    return sandbox.run(command);
  }

  ProcessResult report() const {
    return sandbox.run({"report", "results", "--output", "page.html", "--jsonl", "-"});
  }

  /// Replaces the state with these bytes and removes SQLite's log files.
  void put(const std::string& state) const {
    for (const char* suffix : {"-wal", "-shm", "-journal"}) fs::remove(file().string() + suffix);
    sandbox.folder.write(kState, state);
  }

  fs::path file() const { return sandbox.folder.path() / kState; }
  std::size_t starts() const { return lines_in(sandbox.read("starts.log")); }

  void execute(const std::string& sql) const {
    SQLite::Database database(file().string(), SQLite::OPEN_READWRITE);
    database.exec(sql);
  }

  /// The pages of this kind, numbered from 0.
  std::vector<std::size_t> pages_of(char kind) const {
    std::vector<std::size_t> pages;
    for (std::size_t page = 1; page < bytes.size() / kPageBytes; ++page)
      if (bytes[page * kPageBytes] == kind) pages.push_back(page);
    return pages;
  }

  Sandbox sandbox;
  ProcessResult ended, reported;
  std::string bytes;
};

std::string with_garbled_page(std::string bytes, std::size_t page) {
  for (std::size_t i = 0; i < kPageBytes; ++i) bytes[page * kPageBytes + i] = static_cast<char>(i * 7 + 1);
  return bytes;
}

std::vector<std::string> ids_in(const fs::path& folder) {
  std::vector<std::string> ids;
  for (const Trial& trial : SweepRecord::read(folder).trials) ids.push_back(trial.planned.id);
  return ids;
}

TEST(DamagedSweep, NeverYieldsADifferentTable) {
  const EndedSweep sweep;
  const std::size_t starts = sweep.starts();
  std::mt19937 random(20250301);
  std::vector<std::size_t> flips;  // bit numbers
  for (std::size_t byte = 0; byte < 100; byte += testing::kSanitized ? 10 : 1)
    flips.push_back(8 * byte + random() % 8);  // SQLite's header
  for (int i = 0; i < (testing::kSanitized ? 10 : 200); ++i)
    flips.push_back(random() % (8 * sweep.bytes.size()));
  std::size_t refused = 0;
  for (const std::size_t flip : flips) {
    SCOPED_TRACE("bit " + std::to_string(flip));
    std::string damaged = sweep.bytes;
    damaged[flip / 8] = static_cast<char>(damaged[flip / 8] ^ (1 << flip % 8));
    sweep.put(damaged);
    const ProcessResult reported = sweep.report();
    if (reported.exit_code != 2) {
      EXPECT_EQ(reported.exit_code, 0) << reported.err;
      EXPECT_EQ(reported.out, sweep.reported.out);
    } else {
      EXPECT_THAT(reported.err,
                  StartsWith("hookline: error: the state of the sweep, 'results/state.sqlite', "));
    }
    const ProcessResult again = sweep.sweep();
    if (again.exit_code != 2) {
      EXPECT_EQ(again.exit_code, sweep.ended.exit_code) << again.err;
      EXPECT_EQ(again.out, sweep.ended.out);
    } else {
      ++refused;
      EXPECT_EQ(sweep.sandbox.read(kState), damaged) << "what is refused is left as it is";
    }
  }
  EXPECT_EQ(sweep.starts(), starts) << "no trial has run again";
  EXPECT_GT(refused, flips.size() / 4);
}

TEST(DamagedSweep, IsDetectedAtAnyTruncation) {
  const EndedSweep sweep;
  std::vector<std::size_t> lengths = {0, 1, 99, 100, 512, 4095, 4096, 4097, sweep.bytes.size() - 1};
  for (std::size_t bytes = 2 * kPageBytes; bytes < sweep.bytes.size(); bytes += kPageBytes)
    lengths.push_back(bytes);
  for (const std::size_t length : lengths) {
    SCOPED_TRACE(std::to_string(length) + " bytes are left");
    sweep.put(sweep.bytes.substr(0, length));
    EXPECT_EQ(sweep.report().exit_code, 2);
    EXPECT_EQ(sweep.sweep().exit_code, 2);
    EXPECT_EQ(sweep.sandbox.read(kState).size(), length);
  }
}

TEST(DamagedSweep, SaysWhatIsDamaged) {
  const EndedSweep sweep;
  const auto said = [&] {
    const ProcessResult reported = sweep.report(), again = sweep.sweep(),
                        printed = sweep.sandbox.run(
                            {"sweep", "s.toml", "--output", "results", "--scheduler", "slurm", "--print"});
    EXPECT_EQ(printed.exit_code, 2);
    EXPECT_EQ(reported.exit_code, 2);
    EXPECT_EQ(again.exit_code, 2);
    EXPECT_EQ(reported.out + again.out, "");
    const std::string start = "hookline: error: the state of the sweep, '", is = "state.sqlite', ";
    const auto of = [&](const std::string& text) {
      EXPECT_THAT(text, StartsWith(start));
      EXPECT_THAT(text, HasSubstr("/" + is));
      return text.substr(std::min(text.size(), text.find(is) + is.size()));
    };
    EXPECT_EQ(of(reported.err), of(again.err));
    EXPECT_EQ(of(reported.err), of(printed.err));
    return of(reported.err);
  };
  const auto after = [&](const std::string& sql) {
    sweep.put(sweep.bytes);
    sweep.execute(sql);
    return said();
  };
  const std::vector<std::string> ids = ids_in(sweep.sandbox.folder.path() / "results");
  EXPECT_EQ(after("UPDATE trials SET metric = metric + 1 WHERE position = 4"),
            "is damaged: the row of trial '" + ids[4] + "' does not match its checksum" + kAdvice);
  EXPECT_EQ(after("UPDATE trials SET seconds = 2 * seconds WHERE position IN (4, 5);"
                  "UPDATE facts SET value = 'max' WHERE name = 'goal'"),
            "is damaged: the rows of trials '" + ids[4] + "', '" + ids[5] +
                "' do not match their checksums; the row of fact 'goal' does not match its checksum" +
                kAdvice);
  EXPECT_EQ(
      after("DELETE FROM trials WHERE position = 4"),
      "is damaged: 1 of its " + std::to_string(kTrials + kFacts) + " rows is missing" + std::string(kAdvice));
  EXPECT_EQ(after("UPDATE seal SET row_count = 67"),
            "is damaged: the checksum over all its rows is damaged itself" + std::string(kAdvice));
  EXPECT_EQ(after("DELETE FROM seal"),
            "is damaged: the seal over all its rows is missing" + std::string(kAdvice));
  EXPECT_EQ(
      after("PRAGMA user_version = 2"),
      "is damaged: it says that its format is 2, and has the tables of format 3" + std::string(kAdvice));
  EXPECT_EQ(
      after("PRAGMA user_version = 0"),
      "is damaged: it says that its format is 0, and has the tables of format 3" + std::string(kAdvice));
  EXPECT_EQ(after("ALTER TABLE trials RENAME COLUMN metric TO mitric"),
            "is damaged: its tables are not as they were made" + std::string(kAdvice));
  sweep.put("");
  EXPECT_EQ(said(), "is damaged: it is empty, though trials have run" + std::string(kAdvice));
  sweep.put(std::string(5000, 'x'));
  EXPECT_EQ(said(), "is damaged: SQLite can't read it: file is not a database" + std::string(kAdvice));
  const std::vector<std::size_t> pages = sweep.pages_of(kIndexLeaf);
  ASSERT_THAT(pages, Not(IsEmpty()));
  sweep.put(with_garbled_page(sweep.bytes, pages.front()));
  EXPECT_THAT(said(), AllOf(StartsWith("is damaged: SQLite finds: "), EndsWith(kAdvice)));
  // If the file is not damaged but unusable, --repair does not help.
  sweep.put(sweep.bytes);
  sweep.execute("DROP TABLE seal; PRAGMA user_version = 9");
  EXPECT_EQ(
      said(),
      "can't be used: it was written by another version of hookline (format 9); rename the sweep's folder "
      "and begin the sweep anew: everything that trials have logged stays in trials/ of the renamed "
      "folder\n");
  EXPECT_EQ(sweep.sweep({"--repair"}).exit_code, 2);
  EXPECT_FALSE(sweep.sandbox.has(std::string(kState) + ".damaged-1"));
}

TEST(DamagedSweep, RerunsOnlyTrialsWithDamagedRows) {
  const EndedSweep sweep;
  const fs::path results = sweep.sandbox.folder.path() / "results";
  const std::size_t starts = sweep.starts();
  const std::string id = ids_in(results)[4], began = SweepRecord::read(results).facts.began;
  sweep.execute("UPDATE trials SET metric = metric + 1 WHERE position = 4");
  const std::string damaged = sweep.sandbox.read(kState);
  const ProcessResult repaired = sweep.sweep({"--repair"});
  EXPECT_EQ(repaired.exit_code, 1) << "as before: some trials have failed";
  EXPECT_EQ(repaired.err.substr(0, repaired.err.find("hookline: " + std::to_string(kTrials) + " trials")),
            "hookline: warning: the state of the sweep was damaged: the row of trial '" + id +
                "' does not match its checksum; the state was replaced by one with the " +
                std::to_string(kTrials - 1) +
                " sound rows of trials, and the "
                "damaged file "
                "is kept as '" +
                (results / "state.sqlite.damaged-1").string() +
                "'\nhookline: warning: 1 trial of the sweep had no sound row, and is to run again: " + id +
                "; what was left of it is kept in '" + (results / "trials" / (id + ".1")).string() + "'\n");
  EXPECT_THAT(repaired.err, HasSubstr("hookline: " + std::to_string(kTrials) + " trials, " +
                                      std::to_string(kTrials - 1) + " of them ended in earlier runs; "));
  EXPECT_THAT(repaired.err, Not(HasSubstr("the sweep has changed")));
  EXPECT_EQ(timeless(repaired.out), timeless(sweep.ended.out));
  EXPECT_EQ(sweep.starts(), starts + 1);
  EXPECT_EQ(read_file(results / "state.sqlite.damaged-1"), damaged);
  EXPECT_TRUE(fs::exists(results / "trials" / (id + ".1") / "runs"));
  EXPECT_EQ(SweepRecord::read(results).facts.began, began);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(results))
    if (entry.path().filename().string().starts_with("state")) files.insert(entry.path().filename());
  EXPECT_THAT(files, ::testing::ElementsAre("state.sqlite", "state.sqlite.damaged-1"));

  const ProcessResult again = sweep.sweep({"--repair"});
  EXPECT_THAT(again.err,
              StartsWith("hookline: the state of the sweep is sound: there was nothing to repair\n"));
  EXPECT_EQ(timeless(again.out), timeless(sweep.ended.out));
  EXPECT_EQ(sweep.starts(), starts + 1);
  EXPECT_FALSE(fs::exists(results / "state.sqlite.damaged-2"));
}

/// Repairs the sweep; expects the rows of the finished sweep, and that only the lost trials ran again.
void expect_repaired(const EndedSweep& sweep, std::size_t lost_at_least, std::size_t lost_at_most) {
  const std::size_t starts = sweep.starts();
  ASSERT_EQ(sweep.sweep().exit_code, 2);
  const ProcessResult repaired = sweep.sweep({"--repair"});
  EXPECT_EQ(repaired.exit_code, 1) << repaired.err;
  EXPECT_EQ(timeless(repaired.out), timeless(sweep.ended.out));
  EXPECT_GE(sweep.starts(), starts + lost_at_least) << repaired.err;
  EXPECT_LE(sweep.starts(), starts + lost_at_most) << repaired.err;
}

/// Expects the rows of the finished sweep, with no trial run again.
void expect_sound(const EndedSweep& sweep) {
  const std::size_t starts = sweep.starts();
  const ProcessResult again = sweep.sweep();
  EXPECT_EQ(again.exit_code, sweep.ended.exit_code) << again.err;
  EXPECT_EQ(timeless(again.out), timeless(sweep.ended.out));
  EXPECT_EQ(sweep.starts(), starts);
}

TEST(DamagedSweep, KeepsAllRowsIfNoPageWithRowsIsDamaged) {
  const EndedSweep sweep;
  {
    SCOPED_TRACE("the header, and the schema");
    sweep.put(with_garbled_page(sweep.bytes, 0));
    expect_repaired(sweep, 0, 0);
  }
  for (const char kind : {kIndexLeaf, kTableInterior})
    for (const std::size_t page : sweep.pages_of(kind)) {
      SCOPED_TRACE("page " + std::to_string(page));
      sweep.put(with_garbled_page(sweep.bytes, page));
      expect_repaired(sweep, 0, 0);
    }
  {
    SCOPED_TRACE("all after the last page of rows is cut off");
    sweep.put(sweep.bytes.substr(0, (sweep.pages_of(kTableLeaf).back() + 1) * kPageBytes) + "torn");
    EXPECT_EQ(sweep.sweep({"--repair"}).exit_code, 1);
  }
}

TEST(DamagedSweep, IsRepairedHoweverLittleOfItIsLeft) {
  const EndedSweep sweep;
  std::mt19937 random(20250302);
  std::string garbage(300, '\0');
  for (char& c : garbage) c = static_cast<char>(random());
  std::vector<std::string> states = {garbage};
  for (const std::size_t length : {0, 1, 50, 100, 512, 4096, 4097, 5000, 8192, 12288})
    states.push_back(sweep.bytes.substr(0, length));
  int copies = 0;
  for (const std::string& state : states) {
    SCOPED_TRACE(std::to_string(state.size()) + " bytes");
    sweep.put(state);
    {
      const SweepState repaired(sweep.file().parent_path(), OnDamage::repair);
      ASSERT_TRUE(repaired.repair());
      EXPECT_EQ(read_file(repaired.repair()->kept), state);
      EXPECT_EQ(repaired.repair()->kept, sweep.file().string() + ".damaged-" + std::to_string(++copies));
    }
    const ProcessResult reported = sweep.report();  // the repair wrote new checksums
    if (reported.exit_code != 0) {
      EXPECT_THAT(reported.err, HasSubstr("is damaged: it has no trials, "));
    }
  }
}

TEST(DamagedSweep, IsNotStartedOverIfItsStateIsMissing) {
  const EndedSweep sweep;
  const fs::path results = sweep.sandbox.folder.path() / "results";
  const std::size_t starts = sweep.starts();
  const std::vector<std::string> ids = ids_in(results);
  fs::remove(sweep.file());
  const ProcessResult refused = sweep.sweep();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err, "hookline: error: the state of the sweep, '" + sweep.file().string() +
                             "', is missing, though '" + (results / "trials").string() +
                             "' has trials; put the file back, or run the sweep with --repair: it makes a "
                             "new one, runs the trials again, and keeps what they left behind, as "
                             "trials/ID.1\n");
  const ProcessResult printed =
      sweep.sandbox.run({"sweep", "s.toml", "--output", "results", "--scheduler", "slurm", "--print"});
  EXPECT_EQ(printed.exit_code, 2);
  EXPECT_EQ(printed.err, refused.err);
  const ProcessResult reported = sweep.report();
  EXPECT_EQ(reported.exit_code, 2);
  EXPECT_THAT(
      reported.err,
      StartsWith("hookline: error: the state of the sweep, 'results/state.sqlite', is missing, though "
                 "'results/trials' has trials; "));
  EXPECT_EQ(sweep.starts(), starts);
  EXPECT_FALSE(fs::exists(sweep.file())) << "nothing takes its place";

  const ProcessResult repaired = sweep.sweep({"--repair"});
  EXPECT_EQ(repaired.exit_code, sweep.ended.exit_code) << repaired.err;
  EXPECT_THAT(repaired.err,
              AllOf(StartsWith("hookline: warning: the state of the sweep was missing, though trials have "
                               "run; a new one was made\nhookline: warning: " +
                               std::to_string(kTrials) + " trials of the sweep "),
                    HasSubstr(", and are to run again: ")));
  EXPECT_EQ(timeless(repaired.out), timeless(sweep.ended.out));
  EXPECT_EQ(sweep.starts(), starts + kTrials);
  for (const std::string& id : ids) EXPECT_TRUE(fs::exists(results / "trials" / (id + ".1") / "runs")) << id;
  EXPECT_FALSE(sweep.sandbox.has(std::string(kState) + ".damaged-1")) << "there was nothing to keep";
}

// A sweep killed before it wrote its state leaves an empty trials folder, or none.
TEST(DamagedSweep, StartsIfNoTrialHasRun) {
  const Sandbox sandbox;
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"true\"]\n[grid]\nargs.a = [1, 2]\n");
  fs::create_directories(sandbox.folder.path() / "results" / "trials");
  const ProcessResult result = sandbox.run({"sweep", "s.toml", "--output", "results"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(DamagedSweep, IsRefusedIfItsStateIsNotARegularFile) {
  const EndedSweep sweep;
  const std::string start = "hookline: error: the state of the sweep, '";
  const std::string advice = "; move it aside, and put the sweep's own file back if there was one\n";
  const auto expect_refused = [&](const std::string& what) {
    const std::string end = "state.sqlite', can't be used: it is " + what;
    EXPECT_THAT(sweep.report().err, AllOf(StartsWith(start + "results/" + end), EndsWith(advice)));
    const std::string err = start + sweep.file().parent_path().string() + "/" + end;
    for (const std::vector<std::string>& flags :
         std::vector<std::vector<std::string>>{{}, {"--repair"}, {"--scheduler", "slurm", "--print"}}) {
      std::vector<std::string> command = {"sweep", "s.toml", "--output", "results"};
      command.insert(command.end(), flags.begin(), flags.end());
      const ProcessResult refused = sweep.sandbox.run(command);
      EXPECT_EQ(refused.exit_code, 2);
      EXPECT_THAT(refused.err, AllOf(StartsWith(err), EndsWith(advice)));
    }
    EXPECT_EQ(sweep.report().exit_code, 2);
  };
  fs::remove(sweep.file());
  ASSERT_EQ(::mkfifo(sweep.file().c_str(), 0600), 0);
  expect_refused("a named pipe");
  fs::remove(sweep.file());
  fs::create_directory(sweep.file());
  expect_refused("a directory");
  EXPECT_EQ(sweep.report().err, start + "results/state.sqlite', can't be used: it is a directory" + advice);
  // Files beside the state that SQLite would open and then block on.
  sweep.put(sweep.bytes);
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const fs::path beside = sweep.file().string() + suffix;
    ASSERT_EQ(::mkfifo(beside.c_str(), 0600), 0);
    const std::string own = ", can't be used: SQLite keeps a file of its own as '";
    const std::string pipe = "', and it is a named pipe";
    EXPECT_THAT(sweep.report().err, AllOf(StartsWith(start + "results/state.sqlite'" + own +
                                                     "results/state.sqlite" + suffix + pipe),
                                          EndsWith(advice)));
    for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{{}, {"--repair"}}) {
      const ProcessResult refused = sweep.sweep(flags);
      EXPECT_EQ(refused.exit_code, 2);
      EXPECT_THAT(refused.err,
                  AllOf(StartsWith(start + sweep.file().string() + "'" + own + beside.string() + pipe),
                        EndsWith(advice)));
    }
    fs::remove(beside);
  }
  EXPECT_FALSE(sweep.sandbox.has(std::string(kState) + ".damaged-1"));
}

TEST(DamagedSweep, IsUnchangedByAFailedRepair) {
  const EndedSweep sweep;
  const std::string damaged = with_garbled_page(sweep.bytes, 0), obstacle = std::string(kState) + ".scratch";
  sweep.put(damaged);
  sweep.sandbox.folder.write(obstacle + "/file", "");  // a folder blocks even root
  for (int tries = 0; tries < 2; ++tries) {
    const ProcessResult failed = sweep.sweep({"--repair"});
    EXPECT_EQ(failed.exit_code, 2);
    EXPECT_THAT(failed.err,
                AllOf(StartsWith("hookline: error: the state of the sweep, '" + sweep.file().string() +
                                 "', is damaged: SQLite can't read it: file is not a database; the repair "
                                 "has failed: "),
                      HasSubstr(obstacle),
                      EndsWith("; remove what stands in its way and repair again, or rename the sweep's "
                               "folder and begin the sweep anew: everything that trials have logged "
                               "stays in trials/ of the renamed folder\n")));
    EXPECT_EQ(sweep.sandbox.read(kState), damaged);
  }
  EXPECT_TRUE(sweep.sandbox.has(std::string(kState) + ".damaged-1"));
  EXPECT_FALSE(sweep.sandbox.has(std::string(kState) + ".damaged-2")) << "one copy is enough";
  fs::remove_all(sweep.sandbox.folder.path() / obstacle);
  expect_repaired(sweep, 0, 0);
  EXPECT_FALSE(sweep.sandbox.has(std::string(kState) + ".damaged-2"));
}

TEST(DamagedSweep, KeepsTheRowsOfUndamagedPages) {
  const EndedSweep sweep;
  std::size_t pages = 0;
  for (const std::size_t page : sweep.pages_of(kTableLeaf)) {
    const std::string text = sweep.bytes.substr(page * kPageBytes, kPageBytes);
    if (text.find("args.a") == text.npos || ++pages > 2) continue;
    SCOPED_TRACE("page " + std::to_string(page));
    sweep.put(with_garbled_page(sweep.bytes, page));
    expect_repaired(sweep, 1, kTrials / 2);
  }
  EXPECT_GT(pages, 2u);
}

TEST(DamagedSweep, KeepsTheRowsBesideADamagedOne) {
  const EndedSweep sweep;
  // Points one cell pointer of a page past the page's end: SQLite can read neither that row nor any after it.
  for (const std::size_t page : sweep.pages_of(kTableLeaf)) {
    const std::string text = sweep.bytes.substr(page * kPageBytes, kPageBytes);
    if (text.find("args.a") == text.npos) continue;
    const std::size_t cells =
        static_cast<unsigned char>(text[3]) * 256u + static_cast<unsigned char>(text[4]);
    ASSERT_GT(cells, 2u);
    for (const std::size_t cell : {std::size_t{0}, cells / 2, cells - 1}) {
      SCOPED_TRACE("cell " + std::to_string(cell) + " of " + std::to_string(cells));
      std::string damaged = sweep.bytes;
      damaged.replace(page * kPageBytes + 8 + 2 * cell, 2, "\xff\xff");
      sweep.put(damaged);
      expect_repaired(sweep, 1, 1);
    }
    return;
  }
  FAIL() << "no page has rows of trials";
}

/// Recreates the state left when an older version's sweep was killed: every row is only in SQLite's
/// write-ahead log. Returns the log.
std::string put_logged(const EndedSweep& sweep) {
  const testing::TemporaryFolder scratch;
  const fs::path live = scratch.path() / "state.sqlite";
  sweep.put(sweep.bytes);
  SQLite::Database database(live.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  {
    SQLite::Transaction empty(database);
    create_tables(database);
    seal_all(database);
    empty.commit();
  }
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.exec("ATTACH '" + sweep.file().string() + "' AS ended");
  database.exec("INSERT INTO facts SELECT * FROM ended.facts");
  for (int part = 0; part < 4; ++part)
    database.exec("INSERT INTO trials SELECT * FROM ended.trials WHERE position % 4 = " +
                  std::to_string(part));
  database.exec("INSERT OR REPLACE INTO seal SELECT * FROM ended.seal");
  sweep.put(read_file(live));
  const std::string log = read_file(live.string() + "-wal");
  sweep.sandbox.folder.write(std::string(kState) + "-wal", log);
  return log;
}

TEST(DamagedSweep, NeverYieldsADifferentTableFromADamagedLog) {
  const EndedSweep sweep;
  const std::string log = put_logged(sweep), file = sweep.sandbox.read(kState);
  const auto put = [&](const std::string& changed) {
    sweep.put(file);
    sweep.sandbox.folder.write(std::string(kState) + "-wal", changed);
  };
  EXPECT_EQ(sweep.report().out, sweep.reported.out);
  std::mt19937 random(20260401);
  std::vector<std::size_t> flips;  // bit numbers
  for (std::size_t byte = 0; byte < 32 + 24; byte += testing::kSanitized ? 4 : 1)
    flips.push_back(8 * byte + random() % 8);  // headers
  for (int i = 0; i < kRandomFlips; ++i) flips.push_back(random() % (8 * log.size()));
  for (int i = 0; i < (testing::kSanitized ? 5 : 20); ++i)
    flips.push_back(8 * (log.size() - 4120) + random() % (8 * 4120));  // its end
  for (const std::size_t flip : flips) {
    SCOPED_TRACE("bit " + std::to_string(flip));
    std::string damaged = log;
    damaged[flip / 8] = static_cast<char>(damaged[flip / 8] ^ (1 << flip % 8));
    put(damaged);
    const ProcessResult reported = sweep.report();
    if (reported.exit_code == 0) {
      EXPECT_EQ(reported.out, sweep.reported.out);
    } else {
      EXPECT_THAT(reported.err,
                  StartsWith("hookline: error: the state of the sweep, 'results/state.sqlite', "));
    }
    EXPECT_EQ(sweep.sandbox.read(std::string(kState) + "-wal"), damaged) << "it is left as it is";
  }
  std::string damaged = log;
  damaged[32 + 3 * 4120 + 1000] ^= 1;
  put(damaged);
  EXPECT_EQ(sweep.report().err,
            "hookline: error: the state of the sweep, 'results/state.sqlite', is damaged: SQLite's log of "
            "what was written last, 'results/state.sqlite-wal': its record 4 does not match its checksum" +
                std::string(kAdvice));
  expect_repaired(sweep, 0, kTrials / 4);
  EXPECT_FALSE(sweep.sandbox.has(std::string(kState) + "-wal"));
  EXPECT_EQ(sweep.sandbox.read(std::string(kState) + ".damaged-1-wal"), damaged);
  put(log);
  expect_sound(sweep);
}

TEST(DamagedSweep, IsDetectedInAJournalLeftByAKill) {
  const EndedSweep sweep;
  std::string file, journal;
  {
    const testing::TemporaryFolder scratch;
    const fs::path live = scratch.path() / "state.sqlite";
    std::ofstream(live) << sweep.bytes;
    SQLite::Database database(live.string(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA cache_size = 1");  // forces pages to disk before the transaction ends
    const SQLite::Transaction unfinished(database);
    database.exec("UPDATE trials SET seconds = seconds + 1, metric = metric + 1");
    file = read_file(live);
    journal = read_file(live.string() + "-journal");
  }
  ASSERT_NE(file, sweep.bytes);
  std::mt19937 random(20260402);
  std::size_t refused = 0;
  for (int i = -1; i < kRandomFlips; ++i) {
    SCOPED_TRACE(i);
    std::string damaged = journal;
    if (i >= 0) damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    sweep.put(file);
    sweep.sandbox.folder.write(std::string(kState) + "-journal", damaged);
    const ProcessResult reported = sweep.report();
    if (reported.exit_code == 0 || i < 0) {
      EXPECT_EQ(reported.out, sweep.reported.out) << reported.err;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(DamagedSweep, IsDetectedIfTrialsRanButNoneAreRecorded) {
  const EndedSweep sweep;
  sweep.execute("DELETE FROM trials");
  {
    SQLite::Database database(sweep.file().string(), SQLite::OPEN_READWRITE);
    seal_all(database);
  }
  const std::string end =
      "state.sqlite', is damaged: it has no trials, though trials have run" + std::string(kAdvice);
  for (const ProcessResult& refused : {sweep.report(), sweep.sweep()}) {
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, EndsWith(end));
  }
  const std::size_t starts = sweep.starts();
  EXPECT_EQ(sweep.sweep({"--repair"}).exit_code, 1);
  EXPECT_EQ(sweep.starts(), starts + kTrials);
  EXPECT_EQ(sweep.report().exit_code, 0);
}

/// Creates a state file as the versions without checksums did: formats 1 and 2.
void make_former(const fs::path& file, int format) {
  SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(
      "CREATE TABLE trials ("
      "  id TEXT PRIMARY KEY, position INTEGER NOT NULL,"
      "  key_values TEXT NOT NULL, program TEXT NOT NULL, repeat INTEGER NOT NULL, is_baseline INTEGER NOT "
      "NULL,"
      "  status TEXT NOT NULL, reason TEXT NOT NULL, seconds REAL NOT NULL, metric REAL, step INTEGER,"
      "  measures TEXT NOT NULL, metric_name TEXT NOT NULL, ran_well INTEGER NOT NULL)");
  if (format == 2) {
    database.exec("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)");
    database.exec(
        "INSERT INTO facts VALUES ('began', '2025-03-01 12:00:00'), ('metric', 'loss'), ('goal', 'min')");
  }
  database.exec("PRAGMA user_version = " + std::to_string(format));
  database.exec(
      "INSERT INTO trials VALUES "
      "('aa', 1, '{\"args.a\": \"1\"}', '[\"./train\"]', 0, 1, 'done', '', 2.0, 0.25, 7, '{\"step_seconds\": "
      "1}', "
      "'loss, last', 1),"
      "('bb', 0, '{\"args.a\": \"2\"}', '[\"./train\"]', 1, 0, 'failed', 'it fell', 1.5, NULL, NULL, '{}', "
      "'', 0),"
      "('cc', -1, '{\"args.a\": \"3\"}', '[\"./train\"]', 0, 0, 'done', '', 1.0, 0.5, 7, '{}', 'loss, last', "
      "1)");
}

TEST(DamagedSweep, GetsChecksumsIfAnOlderVersionWroteIt) {
  for (const int format : {1, 2}) {
    SCOPED_TRACE("format " + std::to_string(format));
    const testing::TemporaryFolder folder;
    const fs::path file = folder.path() / "state.sqlite";
    make_former(file, format);
    const std::string before = read_file(file);
    const SweepRecord former = SweepRecord::read(folder.path());
    EXPECT_EQ(read_file(file), before) << "reading it changes nothing";
    { const SweepState upgraded(folder.path()); }
    const SweepRecord record = SweepRecord::read(folder.path());
    for (const SweepRecord* each : {&former, &record}) {
      EXPECT_EQ(each->facts.began, format == 2 ? "2025-03-01 12:00:00" : "");
      ASSERT_EQ(each->trials.size(), 2u);
      EXPECT_EQ(each->trials[0].planned.id, "bb");
      EXPECT_EQ(each->trials[0].planned.repeat, 1);
      EXPECT_EQ(each->trials[0].result.reason, "it fell");
      EXPECT_EQ(each->trials[0].result.metric, std::nullopt);
      const Trial& done = each->trials[1];
      EXPECT_EQ(done.planned.values, (Assignments{{"args.a", "1"}}));
      EXPECT_TRUE(done.planned.is_baseline && done.result.ran_well);
      EXPECT_EQ(done.result.status, TrialStatus::done);
      EXPECT_EQ(done.result.metric, 0.25);
      EXPECT_EQ(done.result.step, 7);
      EXPECT_EQ(done.result.seconds, 2);
      EXPECT_EQ(done.result.measures, "{\"step_seconds\": 1}");
      EXPECT_EQ(done.result.judged_by, "loss, last");
    }
    {
      SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
      EXPECT_EQ(database.execAndGet("SELECT count(*) FROM trials").getInt(), 3)
          << "the trial of a former plan is kept, too";
      EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 3);
      database.exec("UPDATE trials SET seconds = 3 WHERE id = 'cc'");
    }
    EXPECT_THROW(SweepRecord::read(folder.path()), Error);
  }
}

/// Expects that opening the state, with and without --repair, fails with `problem` and the advice to begin
/// anew, and changes nothing.
void expect_to_begin_anew(const fs::path& folder, const std::string& problem) {
  const std::string before = read_file(folder / "state.sqlite");
  for (const OnDamage on_damage : {OnDamage::refuse, OnDamage::repair}) {
    const std::string message = testing::failure_of([&] { const SweepState state(folder, on_damage); });
    EXPECT_THAT(message,
                AllOf(HasSubstr(problem), HasSubstr("; rename the sweep's folder and begin the sweep anew")));
    EXPECT_TRUE(read_file(folder / "state.sqlite") == before) << "it stays as it is";
  }
}

TEST(DamagedSweep, CanNotBeRepairedWithoutChecksums) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "state.sqlite";
  make_former(file, 2);
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    database.exec("PRAGMA writable_schema = ON");
    database.exec("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'facts'");
  }
  expect_to_begin_anew(folder.path(), "state.sqlite', is damaged: SQLite finds: ");
}

TEST(DamagedSweep, CanNotBeRepairedWithoutChecksumsIfItsLogIsDamaged) {
  for (const int format : {1, 2}) {
    SCOPED_TRACE("format " + std::to_string(format));
    const testing::TemporaryFolder folder;
    const fs::path file = folder.path() / "state.sqlite", log = file.string() + "-wal";
    make_former(file, format);
    {
      SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
      sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);  // as if killed
      database.exec("UPDATE trials SET seconds = 3 WHERE id = 'aa'");
    }
    std::string damaged = read_file(log);
    ASSERT_GT(damaged.size(), 1000u);
    damaged[1000] ^= 1;
    std::ofstream(log, std::ios::binary) << damaged;
    expect_to_begin_anew(folder.path(), "its record 1 does not match its checksum");
    EXPECT_TRUE(read_file(log) == damaged) << "it stays as it is";
  }
}

TEST(DamagedSweep, CanNotBeRepairedWithoutChecksumsIfSqliteWillNotWriteIt) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "state.sqlite";
  make_former(file, 2);
  std::string bytes = read_file(file);
  bytes[18] = 9;  // a format that this SQLite can only read
  std::ofstream(file, std::ios::binary) << bytes;
  expect_to_begin_anew(folder.path(), "SQLite won't write it: ");
}

TEST(DamagedSweep, SaysToBeginAnewIfAValueWithoutAChecksumIsDamaged) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "state.sqlite";
  make_former(file, 2);
  SQLite::Database(file.string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE trials SET key_values = '{' WHERE id = 'aa'");
  EXPECT_THAT(testing::failure_of([&] { SweepRecord::read(folder.path()); }),
              AllOf(HasSubstr("state.sqlite', can't be used: "), HasSubstr("begin the sweep anew")));
}

TEST(DamagedSweep, SaysToPutRightALogThatCanNotBeRead) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "state.sqlite", log = file.string() + "-wal";
  make_former(file, 2);
  std::ofstream(log, std::ios::binary).close();
  fs::resize_file(log, (std::uintmax_t{1} << 30) + 1);
  const std::string message = testing::failure_of([&] { SweepRecord::read(folder.path()); });
  EXPECT_EQ(message, "the state of the sweep, '" + file.string() + "', can't be used: '" + log.string() +
                         "' can't be read: it has more than 1 GiB, and at most 1 GiB are read; put that "
                         "right, and run the command again");
}

TEST(DamagedSweep, CanNotBeRepairedWithoutChecksumsIfItsTrialsAreMissing) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "state.sqlite";
  make_former(file, 2);
  fs::create_directories(folder.path() / "trials" / "aa");
  {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE);
    database.exec("DELETE FROM trials WHERE position >= 0");
  }
  expect_to_begin_anew(folder.path(), "it has no trials, though trials have run");
}

TEST(DamagedSweep, LeavesNoLogDespiteAReader) {
  const testing::TemporaryFolder folder;
  SweepPlan plan;
  plan.trials.resize(1);
  plan.trials[0].id = "one";
  std::optional<SQLite::Database> reader;
  {
    SweepState state(folder.path());
    state.take(plan, SweepFacts());
    reader.emplace((folder.path() / "state.sqlite").string(), SQLite::OPEN_READONLY);
    EXPECT_EQ(reader->execAndGet("SELECT count(*) FROM trials").getInt(), 1);
    state.begin("one");
  }
  std::error_code none;
  const auto left = fs::file_size(folder.path() / "state.sqlite-wal", none);
  EXPECT_TRUE(none || left == 0) << left;
}

TEST(DamagedSweep, RepairIsRefusedForDryRunAndPrint) {
  const Sandbox sandbox;
  sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"true\"]\n[grid]\nargs.a = [1, 2]\n");
  const ProcessResult dry = sandbox.run({"sweep", "s.toml", "--repair", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 2);
  EXPECT_THAT(dry.err, HasSubstr("--repair and --dry-run don't go together"));
  const ProcessResult printed =
      sandbox.run({"sweep", "s.toml", "--repair", "--scheduler", "slurm", "--print"});
  EXPECT_EQ(printed.exit_code, 2);
  EXPECT_THAT(printed.err, HasSubstr("--repair and --print don't go together: --print changes nothing\n"));
}

}  // namespace
}  // namespace hookline
