// Logged metrics reach every tracker, and no tracker blocks the code that logs.
#include "tracking/trackers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/process.h"
#include "tracking/crc32c.h"
#include "tracking/json_lines.h"
#include "tracking/mlflow_run.h"
#include "tracking/of_config.h"
#include "tracking/tensorboard_events.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(testing::read_file(file));
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// Trackers that only write JSON lines.
std::unique_ptr<Trackers> lines_to(const std::filesystem::path& file) {
  auto trackers = std::make_unique<Trackers>(TrackedRun{file.parent_path(), {}});
  trackers->add(std::make_unique<JsonLines>(file));
  return trackers;
}

TEST(Trackers, KeepEachLineInOrder) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  {
    const auto trackers = lines_to(file);
    for (int step = 1; step <= 1000; ++step)
      trackers->log(step, 8 * step, {{"loss", 1.0 / step}, {"rate", 0.1}});
  }
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 1000u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].at("loss"), 1.0 / static_cast<double>(i + 1));
    EXPECT_GE(lines[i].at("seconds"), 0);
    EXPECT_EQ(lines[i].at("bytes_sent"), 8 * (i + 1));
  }
  lines_to(file)->log(7, 0,  // after a restart
                      {{"loss", std::numeric_limits<double>::quiet_NaN()},
                       {"best", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(lines_of(file).size(), 1001u);
  EXPECT_TRUE(lines_of(file).back().at("loss").is_null() && lines_of(file).back().at("best").is_null());
}

/// Records the progress logged with each line.
class NotesOfProgress : public Tracker {
 public:
  explicit NotesOfProgress(std::vector<LoggedMetrics>& lines) : lines_(lines) {}
  std::string place() const override { return "notes"; }
  void write(std::span<const LoggedMetrics> lines) override {
    lines_.insert(lines_.end(), lines.begin(), lines.end());
  }

 private:
  std::vector<LoggedMetrics>& lines_;
};

TEST(Trackers, ContinueCountingFromTheLastLineAfterARestart) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  std::vector<LoggedMetrics> noted;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto an_hour_ago = Trackers::Clock::now() - std::chrono::hours(1);
    const auto trackers = trackers_of(RunConfig(), folder.path(), an_hour_ago);
    trackers->add(std::make_unique<NotesOfProgress>(noted));
    trackers->log(1, 100, {{"loss", 1}});
    trackers->log(2, 200, {{"loss", 1}});
  }
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 6u);
  ASSERT_EQ(noted.size(), 6u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t attempt = i / 2;
    EXPECT_EQ(lines[i].at("step"), 1 + i % 2) << "steps are the attempt's";
    EXPECT_EQ(lines[i].at("bytes_sent"), 200 * attempt + 100 * (1 + i % 2));
    EXPECT_NEAR(lines[i].at("seconds").get<double>(), 3600.0 * static_cast<double>(attempt + 1), 60);
    EXPECT_EQ(noted[i].bytes_sent, lines[i].at("bytes_sent")) << "every tracker has the same";
    EXPECT_EQ(noted[i].seconds, lines[i].at("seconds"));
  }
}

TEST(LoggedSoFar, IsWhatTheLastWholeLineSays) {
  const TemporaryFolder folder;
  const auto of = [&](const std::string& text) {
    const LoggedSoFar found = logged_so_far(folder.write("metrics.jsonl", text));
    return std::pair(found.seconds, found.bytes_sent);
  };
  const std::pair<double, std::int64_t> nothing(0, 0), last(2.5, 20);
  const std::string first = R"({"step":1,"seconds":1.5,"bytes_sent":10,"loss":1})"
                            "\n";
  const std::string line = R"({"step":2,"seconds":2.5,"bytes_sent":20,"loss":null})";
  EXPECT_EQ(of(first + line + "\n"), last);
  EXPECT_EQ(of(line), last) << "only its newline is missing";
  EXPECT_EQ(of(line + "\n" + first.substr(0, 30)), last) << "of a process that was killed";
  EXPECT_EQ(of(line + "\n\n" + first.substr(0, 30) + "\n{\"step\":3,\"loss\":1}\nepoch 3\n"), last)
      << "of a program that writes lines of its own";
  EXPECT_EQ(
      of(line + "\n{\"seconds\":9}\n{\"bytes_sent\":9}\n{\"seconds\":\"9\",\"bytes_sent\":null}\n[9]\n"),
      last);
  EXPECT_EQ(of("{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n"), nothing);
  EXPECT_EQ(of(""), nothing);
  EXPECT_EQ(of("\n\n"), nothing);
  std::string much;
  for (int i = 0; i < 20'000; ++i) much += "batch " + std::to_string(i) + std::string(100, '.') + "\n";
  EXPECT_EQ(of(much + first + line + "\n"), last);
  EXPECT_EQ(of(line + "\n" + much), nothing) << "only the file's end is read";
}

TEST(LoggedSoFar, IsZeroWithoutAFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(logged_so_far(folder.path() / "metrics.jsonl").seconds, 0);
  EXPECT_EQ(logged_so_far(folder.path()).bytes_sent, 0);
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(logged_so_far(pipe).seconds, 0) << "and it does not wait for whoever writes to it";
}

TEST(Trackers, CreateNoFileWithoutMetrics) {
  const TemporaryFolder folder;
  {
    const auto trackers = lines_to(folder.path() / "metrics.jsonl");
    trackers->add(std::make_unique<TensorBoardEvents>(folder.path()));
    trackers->add(std::make_unique<MlflowRun>(mlflow_options("http://127.0.0.1:1", "")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Trackers, RefuseReservedNames) {
  const TemporaryFolder folder;
  const auto trackers = lines_to(folder.path() / "metrics.jsonl");
  for (const std::string name : {"step", "seconds", "bytes_sent"}) {
    try {
      trackers->log(1, 0, {{name, 1}});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "a metric can't be called '" + name +
                                  "': hookline adds a field of that name to every line of metrics");
    }
  }
  EXPECT_THROW(trackers->log(1, 0, {{"", 1}}), Error);
}

TEST(TrackersDeathTest, LoseNothingOnExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto file = std::filesystem::temp_directory_path() / "hookline-metrics-at-exit.jsonl";
  std::filesystem::remove(file);
  EXPECT_EXIT(
      {
        static const auto trackers = lines_to(file);
        for (int step = 1; step <= 1000; ++step) trackers->log(step, 0, {{"loss", 1}});
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(lines_of(file).size(), 1000u);
  std::filesystem::remove(file);
}

TEST(Trackers, LogAFullDiskOnceWithWhatWasLost) {
  ::testing::internal::CaptureStderr();
  {
    const auto trackers = lines_to("/dev/full");
    for (int step = 1; step <= 100; ++step) trackers->log(step, 0, {{"loss", 1}});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hookline: warning: metrics can't be written to '/dev/full': No space left on device; training "
            "continues, and they are sent again later\n"
            "hookline: warning: 100 lines of metrics did not get to '/dev/full'\n");
}

// A pipe without a reader: opening it blocks forever, and so would anything that waited for that.
TEST(Trackers, NeverWaitForADiskThatHangs) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "metrics.jsonl";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ::testing::internal::CaptureStderr();
  auto trackers = lines_to(pipe);
  for (int step = 1; step <= 50'000; ++step) trackers->log(step, 0, {{"loss", 1}});
  trackers.reset();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hookline: warning: 50000 lines of metrics did not get to '" + pipe.string() + "'\n")
      << "those that the tracker has in hand too";
}

TEST(Trackers, SurviveATrackerThatThrowsAnything) {
  class Throwing : public Tracker {
   public:
    std::string place() const override { return "a book"; }
    void write(std::span<const LoggedMetrics>) override { throw 42; }
  };
  ::testing::internal::CaptureStderr();
  {
    Trackers trackers(TrackedRun{});
    trackers.add(std::make_unique<Throwing>());
    trackers.log(1, 0, {});
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("metrics can't be written to a book: an exception that is not a std::exception; "
                        "training continues"));
}

/// Records its calls and fails as scripted.
class Recording : public Tracker {
 public:
  struct Script {
    std::vector<std::string> calls;
    std::atomic<int> failures{0};  // failing writes before the first success
    std::size_t taken = 0;         // lines accepted by those failing writes
    bool may_be_tried_again = true;
  };

  explicit Recording(Script& script) : script_(script) {}

  std::string place() const override { return "a book"; }
  void begin(const TrackedRun& run) override {
    script_.calls.push_back("begin " + run.config.at("ddp.comm_hook"));
  }
  void write(std::span<const LoggedMetrics> lines) override {
    if (script_.failures > 0 && script_.failures-- > 0) {
      if (script_.may_be_tried_again) throw TryAgain("it is shut", script_.taken);
      throw Error("it is burnt");
    }
    for (const LoggedMetrics& line : lines) script_.calls.push_back("line " + std::to_string(line.step));
  }
  void end(RunEnd how) override {
    script_.calls.push_back(how == RunEnd::finished ? "finished"
                            : how == RunEnd::failed ? "failed"
                                                    : "later");
  }

 private:
  Script& script_;
};

TrackedRun run_with_hook() { return {"", {{"ddp.comm_hook", "fp16"}}}; }

TEST(Trackers, RetryWhatWasNotWritten) {
  Recording::Script script{{}, 1, 1, true};
  ::testing::internal::CaptureStderr();
  {
    Trackers trackers(run_with_hook());
    trackers.add(std::make_unique<Recording>(script));
    trackers.log(1, 0, {});
    ASSERT_TRUE(testing::eventually([&] { return script.failures == 0; }));
    for (int step = 2; step <= 4; ++step) trackers.log(step, 0, {});
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::MatchesRegex("hookline: warning: metrics can't be written to a book: it is shut; "
                                      "[^\n]*\nhookline: metrics get to a book again\n"));
  EXPECT_THAT(script.calls, ElementsAre("begin fp16", "line 2", "line 3", "line 4", "finished"));
}

TEST(Trackers, DropWhatATrackerWillNeverAccept) {
  Recording::Script script{{}, 1, 0, false};
  ::testing::internal::CaptureStderr();
  {
    Trackers trackers(run_with_hook());
    trackers.add(std::make_unique<Recording>(script));
    trackers.log(1, 0, {});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hookline: warning: metrics can't be written to a book: it is burnt; training continues without "
            "what is "
            "lost\nhookline: warning: 1 line of metrics did not get to a book\n");
  EXPECT_THAT(script.calls, ElementsAre("begin fp16", "finished"));
}

TEST(Trackers, ReportHowTheRunEnded) {
  Recording::Script unwound, later;
  try {
    Trackers trackers(run_with_hook());
    trackers.add(std::make_unique<Recording>(unwound));
    trackers.log(1, 0, {});
    throw std::runtime_error("of the program's");
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(unwound.calls, ElementsAre("begin fp16", "line 1", "failed"));
  Trackers trackers(run_with_hook());
  trackers.add(std::make_unique<Recording>(later));
  trackers.log(1, 0, {});
  Trackers::end_all(RunEnd::later);
  trackers.log(2, 0, {});
  EXPECT_THAT(later.calls, ElementsAre("begin fp16", "line 1", "later"));
}

TEST(Trackers, DoNotWaitForEachOther) {
  const TemporaryFolder folder;
  Recording::Script script{{}, 1'000'000, 0, true};
  ::testing::internal::CaptureStderr();
  {
    Trackers trackers(run_with_hook());
    trackers.add(std::make_unique<Recording>(script));
    trackers.add(std::make_unique<JsonLines>(folder.path() / "metrics.jsonl"));
    trackers.log(1, 0, {{"loss", 1}});
    EXPECT_TRUE(
        testing::eventually([&] { return std::filesystem::exists(folder.path() / "metrics.jsonl"); }));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("1 line of metrics did not get to a book\n"));
}

// A disk with room for part of the file, which later has room again.
TEST(JsonLines, LeaveNoPartialLineOnAFullDisk) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  JsonLines lines(file);
  LoggedMetrics line;
  line.values = {{"loss", 0.5}};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100;  // cuts the second line
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::size_t taken = 0;
  const std::vector<LoggedMetrics> three(3, line);
  try {
    lines.write(three);
    ADD_FAILURE() << "100 bytes took three lines";
  } catch (const TryAgain& problem) {
    EXPECT_STREQ(problem.what(), "File too large");
    taken = problem.taken();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(taken, 1u);
  const auto one = testing::read_file(file);
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 1);
  EXPECT_TRUE(one.ends_with("}\n")) << "the half of the second is taken back";
  lines.write(std::span(three).subspan(taken));
  EXPECT_EQ(lines_of(file).size(), 3u);
  std::ofstream(file, std::ios::app) << "{\"step\":4,\"sec";  // left by a killed process
  JsonLines(file).write(three);
  std::istringstream in(testing::read_file(file));
  std::vector<bool> are_whole;
  for (std::string text; std::getline(in, text);) are_whole.push_back(nlohmann::json::accept(text));
  EXPECT_THAT(are_whole, ElementsAre(true, true, true, false, true, true, true))
      << "no line is glued to the torn one";
}

TEST(TensorBoardEvents, AreRolledBackIfTheDiskIsFull) {
  const TemporaryFolder folder;
  TensorBoardEvents events(folder.path());
  events.begin({folder.path(), {}});
  const std::filesystem::path file = std::filesystem::directory_iterator(folder.path())->path();
  EXPECT_THAT(file.filename().string(), ::testing::StartsWith("events.out.tfevents."));
  const auto size = std::filesystem::file_size(file);
  LoggedMetrics line;
  line.values = {{"loss", 0.5}};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = size + 20;
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(events.write(std::vector{line}), TryAgain);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(std::filesystem::file_size(file), size);
  events.write(std::vector{line});
  EXPECT_GT(std::filesystem::file_size(file), size + 20);
}

// RFC 3720, B.4.
TEST(Crc32c, MatchesTheExamplesOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

TEST(MlflowOptions, PreferTheConfigToTheEnvironment) {
  for (const char* name : {"MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"}) unsetenv(name);
  EXPECT_EQ(mlflow_options("", "").tracking_uri, "http://127.0.0.1:5000");
  EXPECT_EQ(mlflow_options("", "").experiment, "Default");
  setenv("MLFLOW_TRACKING_URI", "https://user:secret@mlflow.lab/", 1);
  setenv("MLFLOW_EXPERIMENT_NAME", "digits", 1);
  EXPECT_EQ(mlflow_options("", "").tracking_uri, "https://user:secret@mlflow.lab");
  EXPECT_EQ(MlflowRun(mlflow_options("", "")).place(), "MLflow at https://mlflow.lab")
      << "without the password";
  EXPECT_EQ(mlflow_options("", "").experiment, "digits");
  EXPECT_EQ(mlflow_options("http://here:1", "mine").tracking_uri, "http://here:1");
  EXPECT_EQ(mlflow_options("http://here:1", "mine").experiment, "mine");
  EXPECT_EQ(MlflowRun(mlflow_options("http://user:pa/ss@here:1", "")).place(), "MLflow at http://here:1");
  setenv("MLFLOW_TRACKING_URI", "postgresql://user:secret@db/mlflow", 1);
  try {
    mlflow_options("", "");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("MLFLOW_TRACKING_URI is 'postgresql://db/mlflow', which is not a server's"));
  }
  setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db", 1);
  try {
    mlflow_options("", "");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "MLFLOW_TRACKING_URI is 'sqlite:///mlflow.db', which is not a server's address: an address "
                 "begins with "
                 "http:// or https:// (`mlflow server` serves files and databases)");
  }
  for (const char* name : {"MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"}) unsetenv(name);
}

TEST(MlflowRun, WarnsThatNobodyAnswers) {
  const TemporaryFolder folder;
  ::testing::internal::CaptureStderr();
  {
    Trackers trackers({folder.path(), {}});
    trackers.add(std::make_unique<MlflowRun>(mlflow_options("http://127.0.0.1:1", "")));
    trackers.log(1, 0, {{"loss", 1}});
  }
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      told,
      HasSubstr("hookline: warning: metrics can't be written to MLflow at http://127.0.0.1:1: Failed to "
                "connect to 127.0.0.1 port 1"));
  EXPECT_THAT(
      told, HasSubstr("hookline: warning: 1 line of metrics did not get to MLflow at http://127.0.0.1:1\n"));
}

}  // namespace
}  // namespace hookline
