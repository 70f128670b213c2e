// `hookline report`: how it reads sweeps, and what it writes.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/report/report_folders.h"
#include "cli/run_hookline.h"
#include "launcher/process/file_url.h"
#include "launcher/report/plots.h"
#include "launcher/report/series.h"
#include "launcher/sweep/state.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::keep_trials;
using testing::lines_of;
using ::testing::Not;
using testing::ProcessResult;
using testing::run_sweep_of_three;
using testing::Sandbox;
using ::testing::StartsWith;

/// The data embedded in a page, as its script reads it.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const auto begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

/// A user who can read everything in a sandbox but write only to its folder `free`.
class Reader {
 public:
  explicit Reader(const Sandbox& sandbox) : folder_(sandbox.folder.path()), options_(sandbox.options({})) {
    fs::create_directory(folder_ / "free");
    chmod("a+rX,a-w", folder_);
    chmod("a+w", folder_ / "free");
  }
  ~Reader() { chmod("u+w", folder_); }  // so that the folder can be removed
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  ProcessResult run(std::vector<std::string> command) const {
    if (geteuid() == 0)  // permissions don't restrict root
      command.insert(command.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    testing::ProcessOptions options = options_;
    options.arguments.assign(command.begin() + 1, command.end());
    return testing::run_process(command[0], options);
  }

  /// Why no such user can be used here; empty if one can.
  std::string why_none() const {
    const ProcessResult result = run({HOOKLINE_BINARY, "--version"});
    return result.exit_code == 0 ? "" : "nobody but root can run " HOOKLINE_BINARY ": " + result.err;
  }

 private:
  static void chmod(const std::string& mode, const fs::path& folder) {
    testing::ProcessOptions options;
    options.arguments = {"-R", mode, folder.string()};
    EXPECT_EQ(testing::run_process("chmod", options).exit_code, 0);
  }

  fs::path folder_;
  testing::ProcessOptions options_;
};

TEST(Series, AreThinnedButKeepTheirEnds) {
  const testing::TemporaryFolder folder;
  std::string text = "no JSON\n";
  for (int i = 0; i < 1000; ++i)
    text += R"({"step": )" + std::to_string(i) + R"(, "loss": 1, "rate": null})" + "\n";
  std::string loss;
  const auto series = read_series(folder.write("metrics.jsonl", text), 100, loss);
  ASSERT_EQ(series.size(), 1u) << "null is not a number";
  const std::vector<SeriesPoint>& points = series.at("loss");
  EXPECT_LE(points.size(), 101u);
  EXPECT_GE(points.size(), 50u);
  EXPECT_EQ(points.front().step, 0);
  EXPECT_EQ(points.back().step, 999);
  EXPECT_FALSE(points.back().seconds || points.back().bytes_sent);
  EXPECT_EQ(loss, "");
  EXPECT_THAT(read_series(folder.path() / "none", 100, loss), IsEmpty());
}

TEST(Series, SkipALineThatIsTooLongAndSayWhich) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("metrics.jsonl", R"({"step": 1, "loss": 3})"
                                                  "\n"
                                                  R"({"step": 2, "loss": 2, "text": ")" +
                                                      std::string(2 << 20, 'x') + "\"}\n" +
                                                      R"({"step": 3, "loss": 1})"
                                                      "\n");
  std::string loss;
  const auto series = read_series(file, 100, loss);
  ASSERT_EQ(series.at("loss").size(), 2u);
  EXPECT_EQ(series.at("loss").back().step, 3);
  EXPECT_EQ(loss, "line 2 of '" + file.string() + "' is longer than 1 MiB: what it logs is lost");
}

TEST(Series, TakeLittleMemoryForAnEndlessLine) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("metrics.jsonl", R"({"step": 1, "loss": 3})"
                                                  "\n");
  std::filesystem::resize_file(file, std::uintmax_t{4} << 40);  // sparse: uses no disk space
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  std::string loss;
  EXPECT_EQ(read_series(file, 100, loss).at("loss").size(), 1u);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100'000) << "KiB";
  EXPECT_THAT(loss, StartsWith("'" + file.string() + "' is larger than 1 GiB: "));
}

/// Returns the metrics that three attempts logged, and writes where the last two begin: attempt 1 resumes
/// from step 2, attempt 2 restarts from the beginning.
std::string metrics_of_three_attempts(const testing::TemporaryFolder& run) {
  const auto lines = [](int from, int to, int value) {
    std::string text;
    for (int step = from; step <= to; ++step)
      text += R"({"step": )" + std::to_string(step) + R"(, "loss": )" + std::to_string(value) + "}\n";
    return text;
  };
  std::string text = lines(1, 4, 10) + R"({"step": 5, "lo)";
  run.write("attempt_1/metrics_start_bytes", std::to_string(text.size()) + "\n");
  text += "\n" + lines(3, 6, 20);
  run.write("attempt_2/metrics_start_bytes", std::to_string(text.size()) + "\n");
  return text + lines(1, 2, 30);
}

TEST(Series, TakeRepeatedStepsFromTheLastAttempt) {
  const testing::TemporaryFolder run;
  const std::string text = metrics_of_three_attempts(run);
  const std::string two = text.substr(0, text.find(R"({"step": 1, "loss": 30})"));
  const auto values = [](const std::vector<SeriesPoint>& points) {
    std::vector<std::pair<std::int64_t, double>> found;
    for (const SeriesPoint& point : points) found.emplace_back(point.step, point.value);
    return found;
  };
  using Pair = std::pair<std::int64_t, double>;
  std::string loss;
  EXPECT_THAT(values(read_series(run.write("metrics.jsonl", two), 100, loss).at("loss")),
              ElementsAre(Pair(1, 10), Pair(2, 10), Pair(3, 20), Pair(4, 20), Pair(5, 20), Pair(6, 20)));
  EXPECT_THAT(values(read_series(run.write("metrics.jsonl", text), 100, loss).at("loss")),
              ElementsAre(Pair(1, 30), Pair(2, 30)));
}

TEST(SweepReport, WritesCsvAndJsonLines) {
  const Sandbox sandbox;
  run_sweep_of_three(sandbox);
  const ProcessResult result = sandbox.run({"report", "results", "--csv", "-", "--jsonl", "trials.jsonl"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "hookline: the report is results/report.html\n");
  std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 5u) << "the baseline twice";
  EXPECT_EQ(lines[0],
            "id,status,reason,repeat,baseline,seconds,step,metric,args.lr,bytes_per_step,phase_seconds."
            "forward,step_seconds,"
            "uncompressed_bytes_per_step\r");
  EXPECT_THAT(lines[1], HasSubstr(",done,,0,true,"));
  EXPECT_THAT(lines[1], HasSubstr(",0.1,1000,0.02,0.1,4000\r"));
  EXPECT_THAT(lines[4], HasSubstr(",failed,"));
  EXPECT_THAT(lines[4], ::testing::EndsWith(",,,0.4,,,,\r"));
  lines = lines_of(sandbox.read("trials.jsonl"));
  ASSERT_EQ(lines.size(), 4u);
  const auto trial = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(trial.at("values").at("args.lr"), "0.1");
  EXPECT_EQ(trial.at("metric"), 0.769231);
  EXPECT_EQ(trial.at("measures").at("bytes_per_step"), 1000);
}

TEST(SweepReport, WritesThePageToStandardOutput) {
  const Sandbox sandbox;
  keep_trials(sandbox.folder.path() / "one", 1);
  const ProcessResult result = sandbox.run({"report", "one", "--output", "-", "--csv", "one.csv"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with("<!doctype html>")) << result.out.substr(0, 100);
  EXPECT_TRUE(result.out.ends_with("</html>\n"));
  EXPECT_EQ(lines_of(sandbox.read("one.csv")).size(), 2u);
  EXPECT_FALSE(sandbox.has("-"));
  EXPECT_FALSE(sandbox.has("one/report.html"));
}

class SweepReportOfABudget : public ::testing::TestWithParam<std::string> {};

TEST_P(SweepReportOfABudget, SaysWhyThereAreNoSpeedups) {
  const Sandbox sandbox;
  sandbox.script("train.sh", "exit 0\n");
  const auto run_with_budget = [&](const std::string& trials) {
    sandbox.folder.write("s.toml", "[sweep]\nprogram = [\"./train.sh\"]\nbudget_trials = " + trials + "\n" +
                                       GetParam() + "[baseline]\nargs.a = 0\n[grid]\nargs.a = [1, 2]\n");
    return sandbox.run({"sweep", "s.toml", "--output", "results"});
  };
  ProcessResult result = run_with_budget("2");
  EXPECT_THAT(result.err, HasSubstr("hookline: no speed-ups: "));
  EXPECT_THAT(result.out, Not(::testing::ContainsRegex("[0-9]x ")));
  nlohmann::json data = data_of(sandbox.run({"report", "results", "--output", "-"}).out);
  ASSERT_EQ(data.at("remarks").size(), 1u);
  EXPECT_THAT(data.at("remarks")[0].get<std::string>(), StartsWith("no speed-ups: the only baseline trial "));
  for (const auto& row : data.at("rows")) EXPECT_TRUE(row.at("speedup").is_null());

  result = run_with_budget("3");
  EXPECT_THAT(result.err, Not(HasSubstr("no speed-ups")));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("[0-9]x ")) << "the baseline ran again as the third trial";
  data = data_of(sandbox.run({"report", "results", "--output", "-"}).out);
  EXPECT_THAT(data.at("remarks"), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Settings, SweepReportOfABudget,
                         ::testing::Values("", "seeds = [1, 2]\n", "repeats = 2\n"));

// Without a run folder, relative log paths would resolve against the current folder.
TEST(SweepReport, ShowsNoForeignLogsForATrialWithoutLogs) {
  const Sandbox sandbox;
  run_sweep_of_three(sandbox);
  for (const auto& trial : fs::directory_iterator(sandbox.folder.path() / "results" / "trials"))
    fs::remove_all(trial.path() / "runs");
  sandbox.folder.write("0/stdout.log", "said by others\n");
  const ProcessResult result = sandbox.run({"report", "results", "--output", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(data_of(result.out).at("trials").dump(), Not(HasSubstr("said by others")));
}

TEST(SweepReport, ExportsChartsAsImages) {
  if (find_browser().empty()) GTEST_SKIP() << "no browser of Chromium's kind";
  const Sandbox sandbox;
  run_sweep_of_three(sandbox);
  for (const std::string format : {"svg", "png"}) {
    const ProcessResult result =
        sandbox.run({"report", "results", "--plots", "pictures", "--format", format});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("hookline: a chart is pictures/metric-by-time." + format + "\n"));
    for (const std::string name : {"metric-by-time", "metric-by-bytes", "metric-by-step", "pareto-time",
                                   "pareto-bytes", "phases", "parallel"}) {
      const std::string picture = sandbox.read("pictures/" + name + "." + format);
      EXPECT_TRUE(picture.starts_with(format == "svg" ? "<svg " : "\x89PNG\r\n")) << name;
      EXPECT_TRUE(picture.ends_with(format == "svg" ? "</svg>" : "IEND\xae\x42\x60\x82")) << name;
    }
  }
  EXPECT_THAT(sandbox.read("pictures/metric-by-time.svg"), HasSubstr("seconds since the start"));
}

TEST(SweepReport, ExportsChartsFromAFolderOfAnyName) {
  EXPECT_EQ(file_url("/a/o #50%41?x/\xc3\xa9-._~1"), "file:///a/o%20%2350%2541%3Fx/%C3%A9-._~1");
  if (find_browser().empty()) GTEST_SKIP() << "no browser of Chromium's kind";
  const Sandbox sandbox;
  const std::string folder = "o #50%41?x";
  keep_trials(sandbox.folder.path() / folder, 1);
  const ProcessResult result = sandbox.run({"report", folder, "--plots", "pictures"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(sandbox.has("pictures/pareto-time.svg"));
}

TEST(SweepReport, ReadsTheStateOfOlderVersions) {
  const Sandbox sandbox;
  const fs::path folder = sandbox.folder.path() / "old";
  keep_trials(folder, 2);
  {
    SQLite::Database database((folder / "state.sqlite").string(), SQLite::OPEN_READWRITE);
    for (const char* table : {"facts", "seal"}) database.exec(std::string("DROP TABLE ") + table);
    database.exec("ALTER TABLE trials DROP COLUMN checksum");
    database.exec("PRAGMA user_version = 1");
  }
  const ProcessResult result = sandbox.run({"report", "old", "--jsonl", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).size(), 2u);
  EXPECT_EQ(SweepRecord::read(folder).facts.name, "");
  keep_trials(folder, 2);
  EXPECT_EQ(SweepRecord::read(folder).facts.name, "many")
      << "the next run of the sweep adds what was not kept then";
}

TEST(SweepReport, ReadsReadOnlyFolders) {
  const Sandbox sandbox;
  const fs::path folder = sandbox.folder.path();
  for (const char* name : {"ended", "running", "killed", "older"}) keep_trials(folder / name, 2);
  SweepState state(folder / "running");
  state.begin("trial1");
  const auto copy_from = [&](const char* from, const char* to, const std::string& file) {
    fs::copy_file(folder / from / file, folder / to / file, fs::copy_options::overwrite_existing);
  };
  copy_from("running", "killed", "state.sqlite");
  // Older versions left the latest changes in a write-ahead log beside the file.
  {
    SQLite::Database live((folder / "ended/state.sqlite").string(), SQLite::OPEN_READWRITE);
    live.exec("PRAGMA journal_mode = WAL");
    const int version = live.execAndGet("PRAGMA user_version").getInt();
    live.exec("PRAGMA user_version = " + std::to_string(version));
    for (const char* file : {"state.sqlite", "state.sqlite-wal"}) copy_from("ended", "older", file);
    live.exec("PRAGMA journal_mode = DELETE");
  }
  const Reader reader(sandbox);
  if (const std::string why = reader.why_none(); !why.empty()) GTEST_SKIP() << why;
  const auto statuses = [&](const std::string& sweep) {
    const ProcessResult result =
        reader.run({HOOKLINE_BINARY, "report", sweep, "--output", "free/page.html", "--jsonl", "-"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "hookline: the report is free/page.html\n");
    std::vector<std::string> found;
    for (const std::string& line : lines_of(result.out))
      found.push_back(nlohmann::json::parse(line).at("status"));
    return found;
  };
  EXPECT_THAT(statuses("ended"), ElementsAre("done", "done"));
  EXPECT_THAT(statuses("running"), ElementsAre("done", "running"));
  EXPECT_THAT(statuses("killed"), ElementsAre("done", "interrupted")) << "nobody runs it any more";
  const ProcessResult refused =
      reader.run({HOOKLINE_BINARY, "report", "older", "--output", "free/page.html"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "hookline: error: the state of the sweep, 'older/state.sqlite', can't be used: it can't be read "
            "without 'older/state.sqlite-wal', which SQLite uses only in a folder that you may write to; "
            "copy 'older' to such a folder, and run the command on the copy\n");
  EXPECT_EQ(reader.run({"cp", "-r", "--no-preserve=mode", "older", "free/copy"}).exit_code, 0);
  EXPECT_THAT(statuses("free/copy"), ElementsAre("done", "done"));
}

TEST(SweepReport, AddsNoFilesToAFinishedSweep) {
  const Sandbox sandbox;
  keep_trials(sandbox.folder.path() / "ended", 1);
  EXPECT_EQ(sandbox.run({"report", "ended", "--output", "page.html"}).exit_code, 0);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(sandbox.folder.path() / "ended"))
    files.insert(entry.path().filename());
  EXPECT_THAT(files, ElementsAre(".lock", "state.sqlite", "trials"));
}

TEST(SweepReport, SaysWhatIsWrong) {
  const Sandbox sandbox;
  const auto error = [&](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), "report");
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.out, "");
    const std::vector<std::string> lines = lines_of(result.err);
    const auto told = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.starts_with("hookline: error: ");
    });
    return told == lines.end() ? "" : *told;
  };
  EXPECT_EQ(error({"."}, 2),
            "hookline: error: '.' is not a folder of a sweep's results: it has no state.sqlite");
  sandbox.folder.write("broken/state.sqlite", std::string(5000, 'x'));
  EXPECT_THAT(error({"broken"}, 2),
              AllOf(StartsWith("hookline: error: the state of the sweep, 'broken/state.sqlite', is "
                               "damaged: SQLite can't read it: "),
                    HasSubstr("run the sweep with --repair")));
  keep_trials(sandbox.folder.path() / "one", 1);
  keep_trials(sandbox.folder.path() / "two", 1);
  EXPECT_THAT(
      error({"one", "two"}, 2),
      HasSubstr("a page of several sweeps has no folder of its own: name its file with --output FILE"));
  keep_trials(sandbox.folder.path() / "two", 1, /*has_baseline=*/false, "max");
  EXPECT_EQ(error({"one", "two", "--output", "both.html"}, 2),
            "hookline: error: 'one' compares trials by the last 'loss' (min), and 'two' by the last 'loss' "
            "(max): a page needs sweeps with the same metric, goal and metric_value");
  EXPECT_EQ(error({"one", "./one/", "--output", "both.html"}, 2), "hookline: error: './one/' is given twice");
  EXPECT_THAT(error({"one", "--format", "png"}, 2),
              HasSubstr("--format applies to the pictures: say where they go with --plots DIR"));
  EXPECT_THAT(error({"one", "--browser", "chromium"}, 2), HasSubstr("--browser applies to the pictures"));
  for (const char* flag : {"--output", "--csv", "--jsonl"})
    EXPECT_THAT(error({"one", flag, "."}, 2),
                HasSubstr(std::string(flag) + " '.' is a folder: name a file in it"));
  const auto clash = [&](std::vector<std::string> arguments) { return error(std::move(arguments), 2); };
  EXPECT_EQ(clash({"one", "--output", "x", "--csv", "x"}),
            "hookline: error: --output and --csv both write 'x': name another file for one of them");
  EXPECT_EQ(clash({"one", "--csv", "x", "--jsonl", "./one/../x"}),
            "hookline: error: --csv and --jsonl both write './one/../x': name another file for one of them");
  EXPECT_EQ(clash({"one", "--jsonl", "one/report.html"}),
            "hookline: error: --output and --jsonl both write 'one/report.html': name another file for one "
            "of them");
  fs::create_symlink("x", sandbox.folder.path() / "link");
  sandbox.folder.write("x", "");
  EXPECT_EQ(clash({"one", "--output", "x", "--jsonl", "link"}),
            "hookline: error: --output and --jsonl both write 'link': name another file for one of them");
  EXPECT_EQ(clash({"one", "--csv", "-", "--jsonl", "-"}),
            "hookline: error: --csv and --jsonl both write to standard output: name a file for one of them");
  EXPECT_EQ(clash({"one", "--output", "-", "--csv", "-"}),
            "hookline: error: --output and --csv both write to standard output: name a file for one of them");
  EXPECT_FALSE(sandbox.has("one/report.html")) << "nothing is written";
  EXPECT_EQ(sandbox.read("x"), "");
  sandbox.folder.write("file", "");
  EXPECT_THAT(error({"one", "--plots", "file"}, 2), HasSubstr("--plots 'file' is a file: name a folder"));
  sandbox.folder.write("hooks.toml", "");
  EXPECT_EQ(error({"hooks.toml"}, 2),
            "hookline: error: 'hooks.toml' is a file: name the folder of a sweep's results, such as "
            "hookline-sweeps/hooks");
  EXPECT_EQ(
      clash({"one", "--output", "-", "--plots", "p"}),
      "hookline: error: --plots draws the charts from the page's file, so the page can't go to standard "
      "output: name a file with --output FILE");
  EXPECT_THAT(error({"one", "--plots", "p", "--format", "jpg"}, 2),
              HasSubstr("there is no --format 'jpg': write png or svg"));
  EXPECT_THAT(error({"one", "--output", "no/such/folder.html"}, 1),
              StartsWith("hookline: error: can't write 'no/such/folder.html', and left it unchanged: "));
  EXPECT_EQ(error({"one", "--plots", "p", "--browser", "no-such-browser"}, 1),
            "hookline: error: there is no program 'no-such-browser' to draw charts with");
  EXPECT_EQ(error({"one", "--plots", "p", "--browser", "false"}, 1),
            "hookline: error: 'false' did not draw the charts (exit code 1); it says: ");
  testing::ProcessOptions options = sandbox.options({"report", "one", "--plots", "p"});
  options.environment["PATH"] = sandbox.folder.path().string();
  sandbox.folder.write("sh", "#!/bin/sh\nexec /bin/sh \"$@\"\n", true);
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: --plots needs a browser of Chromium's kind, and none is on PATH: install "
            "chromium, or "
            "name one with --browser\n");
}

}  // namespace
}  // namespace hookline
