#include "libexec/self_test/checks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/process.h"

namespace hookline {
namespace {

void fill(Report& report) {
  report.add({"all-reduce", Verdict::ok, "float32, float16", ""});
  report.add({"links", Verdict::warning, "120 MB/s between hosts", "look at\nthe cable"});
  report.add(std::vector<Link>{{0, 1, false, 23e-6, 1.2e8}, {0, 2, true, 0.0015, 2.1e9}});
  report.add(HookTime{"power_sgd", "fp16", 1e-3, 0.002, 4096});
}

TEST(Report, IsReadableAsText) {
  std::ostringstream out;
  Report report(Report::Form::text, out);
  fill(report);
  EXPECT_EQ(report.finish(), 0);
  EXPECT_EQ(out.str(),
            "ok       all-reduce                 float32, float16\n"
            "warning  links                      120 MB/s between hosts\n"
            "                                    -> look at\n"
            "                                       the cable\n"
            "           rank 0 - 1               23 µs     120 MB/s    between hosts\n"
            "           rank 0 - 2               1.5 ms    2.1 GB/s    on one host\n"
            "\n2 checks: runs will work, with 1 warning\n");
}

TEST(Report, EndsWithAVerdict) {
  std::ostringstream out;
  Report well(Report::Form::text, out);
  well.add({"join", Verdict::ok, "2 ranks", ""});
  EXPECT_EQ(well.finish(), 0);
  EXPECT_EQ(out.str().substr(out.str().find('\n') + 1), "\n1 check: all is well\n");
  out.str("");
  Report ill(Report::Form::text, out);
  ill.add({"join", Verdict::failed, "no", ""});
  EXPECT_EQ(ill.finish(), 1);
  EXPECT_EQ(out.str(), "failed   join                       no\n\n1 check: 1 check failed\n");
}

TEST(Report, IsValidJsonAtAnyTime) {
  std::ostringstream out;
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "report.json";
  const auto written = [&] { return nlohmann::json::parse(testing::read_file(file)); };
  Report report(Report::Form::silent, out, file);
  report.expect(5);
  fill(report);
  EXPECT_EQ(written()["verdict"], "unfinished");
  EXPECT_EQ(written()["not_tried"], 3);
  report.add({"gather", Verdict::failed, "broken \xff byte", ""});
  EXPECT_EQ(report.finish(), 1);
  const auto json = written();
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(json["verdict"], "failed");
  EXPECT_EQ(json["not_tried"], 2);
  EXPECT_EQ(json["checks"][1], (nlohmann::json{{"name", "links"},
                                               {"verdict", "warning"},
                                               {"found", "120 MB/s between hosts"},
                                               {"advice", "look at\nthe cable"}}));
  EXPECT_EQ(json["links"][1]["bytes_per_second"], 2.1e9);
  EXPECT_EQ(json["hooks"][0]["wrapper"], "fp16");
}

TEST(Report, CountsWhatWasNotTried) {
  std::ostringstream out;
  Report report(Report::Form::text, out);
  report.expect(29);
  report.add({"join", Verdict::warning, "slow", ""});
  report.add({"broadcast", Verdict::failed, "no", ""});
  EXPECT_EQ(report.finish(), 1);
  EXPECT_TRUE(out.str().ends_with("\n2 checks: 1 check failed, 1 warning, 27 not tried\n")) << out.str();
}

TEST(Report, SaysOnceThatItsFileCanNotBeWritten) {
  std::ostringstream out;
  Report report(Report::Form::text, out, "/nowhere/report.json");
  ::testing::internal::CaptureStderr();
  fill(report);
  EXPECT_EQ(report.finish(), 0);
  EXPECT_EQ(
      ::testing::internal::GetCapturedStderr(),
      "hookline test: the report can't be written to '/nowhere/report.json': No such file or directory\n");
}

TEST(Report, IsSilentOnOtherRanks) {
  std::ostringstream out;
  Report report(Report::Form::silent, out);
  report.add({"gather", Verdict::failed, "", ""});
  EXPECT_EQ(report.finish(), 1);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace hookline
