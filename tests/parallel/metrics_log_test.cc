#include "parallel/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "hooks/error.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(testing::read_file(file));
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(MetricsLog, KeepsEachLineInOrder) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  {
    MetricsLog log(file);
    for (int step = 1; step <= 1000; ++step) log.add(step, 8 * step, {{"loss", 1.0 / step}, {"rate", 0.1}});
  }
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 1000u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].at("loss"), 1.0 / static_cast<double>(i + 1));
    EXPECT_GE(lines[i].at("seconds"), 0);
    EXPECT_EQ(lines[i].at("bytes_sent"), 8 * (i + 1));
  }
  {
    MetricsLog log(file);  // of a restart
    log.add(7, 0,
            {{"loss", std::numeric_limits<double>::quiet_NaN()},
             {"best", std::numeric_limits<double>::infinity()}});
  }
  EXPECT_EQ(lines_of(file).size(), 1001u);
  EXPECT_TRUE(lines_of(file).back().at("loss").is_null() && lines_of(file).back().at("best").is_null());
}

TEST(MetricsLog, MakesNoFileForNothing) {
  const TemporaryFolder folder;
  { const MetricsLog log(folder.path() / "metrics.jsonl"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MetricsLog, RefusesNamesThatEachLineHas) {
  const TemporaryFolder folder;
  MetricsLog log(folder.path() / "metrics.jsonl");
  for (const std::string name : {"step", "seconds", "bytes_sent"}) {
    try {
      log.add(1, 0, {{name, 1}});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "a metric can't be called '" + name + "': each line has that by itself");
    }
  }
  EXPECT_THROW(log.add(1, 0, {{"", 1}}), Error);
}

TEST(MetricsLogDeathTest, LosesNothingToAnExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto file = std::filesystem::temp_directory_path() / "hookline-metrics-at-exit.jsonl";
  std::filesystem::remove(file);
  EXPECT_EXIT(
      {
        static MetricsLog log(file);
        for (int step = 1; step <= 1000; ++step) log.add(step, 0, {{"loss", 1}});
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(lines_of(file).size(), 1000u);
  std::filesystem::remove(file);
}

TEST(MetricsLog, TellsOnceOfAFullDisk) {
  ::testing::internal::CaptureStderr();
  {
    MetricsLog log("/dev/full");
    for (int step = 1; step <= 100; ++step) {
      log.add(step, 0, {{"loss", 1}});
      MetricsLog::flush_all();
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hookline: warning: metrics can't be written to '/dev/full': No space left on device; training "
            "goes on without "
            "what is lost\n");
}

// A pipe that nobody reads: opening it waits for ever.
TEST(MetricsLog, NeverWaitsForADiskThatHangs) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "metrics.jsonl";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ::testing::internal::CaptureStderr();
  std::optional<MetricsLog> log(std::in_place, pipe);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 1; step <= 50'000; ++step) log->add(step, 0, {{"loss", 1}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, MetricsLog::kPatience);
  log.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4 * MetricsLog::kPatience);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(" lines of metrics were lost: '"));
}

}  // namespace
}  // namespace hookline
