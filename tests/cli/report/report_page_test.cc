// The page of `hookline report`, rendered in a browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/report/report_folders.h"
#include "cli/run_hookline.h"
#include "launcher/report/plots.h"
#include "launcher/sweep/state.h"
#include "support/sanitized.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ContainsRegex;
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

/// The output of look_at_page.py; see its usage for `how`.
nlohmann::json seen_by_browser(const fs::path& page, const std::string& how) {
  testing::ProcessOptions options;
  options.arguments = {LOOK_AT_PAGE, find_browser(), page.string(), how};
  options.limit = std::chrono::minutes(14);  // a page of a thousand trials takes 40 seconds on idle cores
  const ProcessResult result = testing::run_process(PYTHON_PROGRAM, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
}

/// Why pages are not shown in a browser here; empty if they are.
std::string why_no_browser() {
  if (testing::kSanitized) return "a sanitizer checks nothing in the browser, where most time is spent";
  if (find_browser().empty()) return "no browser of Chromium's kind";
  return fs::exists(PYTHON_PROGRAM) ? "" : "no Python to drive a browser: " PYTHON_PROGRAM;
}

/// The outcome of a trial.
struct Outcome {
  std::string lr, seed;
  TrialStatus status = TrialStatus::done;
  double loss = 0, step_seconds = 0, forward_seconds = 0;
};

/// Creates a sweep's folder with these trials; each keeps its measurements, however it ended.
void keep_outcomes(const fs::path& folder, const std::vector<Outcome>& outcomes) {
  SweepPlan plan;
  for (const Outcome& outcome : outcomes) {
    PlannedTrial trial;
    trial.id = outcome.lr + "-" + outcome.seed;
    trial.values = {{"args.lr", outcome.lr}, {"training.seed", outcome.seed}};
    trial.program = {"./train"};
    plan.trials.push_back(trial);
  }
  SweepState state(folder);
  SweepFacts facts;
  facts.metric = "loss";
  state.take(plan, facts);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const fs::path own = folder / "trials" / plan.trials[i].id;
    fs::create_directories(own);
    std::ofstream(own / "config.toml") << "[launch]\n";
    TrialResult result;
    result.status = outcomes[i].status;
    result.seconds = 125;
    result.metric = outcomes[i].loss;
    result.measures = nlohmann::json{{"step_seconds", outcomes[i].step_seconds},
                                     {"phase_seconds", {{"forward", outcomes[i].forward_seconds}}}}
                          .dump();
    state.end(plan.trials[i].id, result);
  }
}

/// The trace called `name` among the traces that seen_by_browser returned.
nlohmann::json trace_named(const nlohmann::json& traces, const std::string& name) {
  for (const nlohmann::json& trace : traces)
    if (trace.at("name") == name) return trace;
  return nullptr;
}

/// Creates a sweep's folder with hooks in every precision and step times from 5 to 300 ms.
void keep_hooks(const fs::path& folder) {
  const std::string table = "ddp.comm_state_option.";
  SweepPlan plan;
  const auto plan_trial = [&](const Assignments& values) {
    PlannedTrial trial;
    trial.id = "trial" + std::to_string(plan.trials.size());
    trial.values = values;
    trial.program = {"./train"};
    trial.is_baseline = plan.trials.empty();
    plan.trials.push_back(trial);
  };
  plan_trial({{"ddp.comm_hook", "no"}});
  for (const char* wrapper : {"no", "fp16", "bf16"}) {
    plan_trial({{"ddp.comm_hook", "allreduce"}, {"ddp.comm_wrapper", wrapper}});
    for (const char* hook : {"power_sgd", "batched_power_sgd"})
      for (const char* rank : {"1", "2"})
        plan_trial({{"ddp.comm_hook", hook},
                    {"ddp.comm_wrapper", wrapper},
                    {table + "matrix_approximation_rank", rank},
                    {table + "start_powerSGD_iter", "10"}});
  }
  SweepState state(folder);
  SweepFacts facts;
  facts.name = "hooks";
  facts.began = "2026-01-31T12:00:00Z";
  facts.metric = "accuracy";
  facts.goal = "max";
  state.take(plan, facts);
  const auto last = static_cast<double>(plan.trials.size() - 1);
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    const auto place = static_cast<double>(i) / last;  // 0 to 1
    const double seconds = 0.005 * std::pow(60, place), bytes = 1e6 * std::pow(0.01, place);
    TrialResult result;
    result.metric = 0.99 - 0.4 * place;
    result.seconds = 100 * seconds;
    result.ran_well = true;
    result.measures =
        nlohmann::json{
            {"step_seconds", seconds},
            {"bytes_per_step", bytes},
            {"uncompressed_bytes_per_step", 1e6},
            {"peak_memory_bytes", 3e8},
            {"phase_seconds", {{"forward", seconds / 4}, {"backward", seconds / 2}, {"other", seconds / 4}}},
            {"stage_bytes", {{"gradients", bytes / 2}, {"q", bytes / 2}}}}
            .dump();
    state.end(plan.trials[i].id, result);
  }
}

/// Expects that nothing overlaps within the page's charts, at either width.
void expect_nothing_overlaps(const nlohmann::json& seen) {
  for (const std::string width : {"1300", "700"}) {
    EXPECT_THAT(seen.at("overlaps_" + width), IsEmpty()) << width << ": " << seen.at("overlaps_" + width);
    EXPECT_EQ(seen.at("wider_than_" + width), 0) << width;
  }
}

TEST(ReportPage, RendersInABrowser) {
  const Sandbox sandbox;
  run_sweep_of_three(sandbox);
  EXPECT_EQ(sandbox.run({"report", "results"}).exit_code, 0);
  const fs::path page = sandbox.folder.path() / "results" / "report.html";
  if (const std::string why = why_no_browser(); !why.empty()) GTEST_SKIP() << why;
  const nlohmann::json seen = seen_by_browser(page, "used");
  ASSERT_TRUE(seen.is_object());
  EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"];
  EXPECT_THAT(seen["requests"], ElementsAre("file://" + page.string(), "file://" + page.string()))
      << "it asks for nothing but itself";
  EXPECT_EQ(seen["title"], "tried");
  EXPECT_EQ(seen["state"], "4 trials, 3 done, 1 failed");
  EXPECT_THAT(
      seen["headline"].get<std::string>(),
      AllOf(StartsWith("No best: the lowest loss "), HasSubstr("\nLowest: lr=0.2 "),
            HasSubstr(": loss 0.625 (baseline 0.7692 ± 0); 1 times the baseline's speed; 4 times fewer "
                      "bytes ")));
  const auto how = seen["how"].get<std::string>();
  EXPECT_THAT(how, HasSubstr("hookline sweep tried.toml --output results"));
  EXPECT_THAT(how, ContainsRegex("Begun[ \t\n]+[0-9-]+ [0-9:]+ UTC"));
  EXPECT_THAT(seen["charts"], ElementsAre("metric-by-time", "metric-by-bytes", "metric-by-step",
                                          "pareto-time", "pareto-bytes", "phases", "parallel"));
  EXPECT_EQ(seen["drawn"], seen["charts"]);
  EXPECT_EQ(seen["curves"], 2) << "the one that failed logged nothing";
  EXPECT_THAT(seen["header"], ElementsAre("Row", "loss", "Step", "Trial", "Sent per step", "Compression",
                                          "Speed-up", "Trials"));
  EXPECT_THAT(seen["rows"], ElementsAre("lr=0.2", "lr=0.1", "lr=0.4")) << "the best first";
  EXPECT_EQ(seen["sorted"].dump(), R"([["lr=0.1","lr=0.2","lr=0.4"],"ascending"])");
  EXPECT_EQ(seen["sorted_back"].dump(), R"([["lr=0.4","lr=0.2","lr=0.1"],"descending"])");
  const auto detail = seen["detail"].get<std::string>();
  EXPECT_THAT(detail, HasSubstr(": failed"));
  EXPECT_THAT(detail, HasSubstr("./train.sh --lr 0.4")) << "its command";
  EXPECT_EQ(seen["details_left"], 0) << "another click closes it";
  EXPECT_THAT(seen["filtered"], ElementsAre("lr=0.2"));
  EXPECT_EQ(seen["shown"], "1 of 3 rows");
  EXPECT_EQ(seen["curves_filtered"], 1) << "charts are of the rows that are shown";
  EXPECT_THAT(seen["none"], IsEmpty());
  EXPECT_EQ(seen["controls_in_print"], false);
  EXPECT_NE(seen["ground_light"], seen["ground_dark"]);
  EXPECT_EQ(seen["ground_in_print"], "rgb(255, 255, 255)") << "whatever the screen has";
  EXPECT_EQ(seen["cut_off_in_print"], 0) << "of the table, on a sheet of A4";
  EXPECT_THAT(testing::read_file(page), Not(HasSubstr("it </script> fell")))
      << "a program's output can't end the page's script";
  EXPECT_THAT(testing::read_file(page), HasSubstr("it \\u003c/script> fell over"));
}

TEST(ReportPage, RendersZeroOneAndAThousandTrials) {
  const std::string why_not = why_no_browser();
  for (const std::size_t count : {0u, 1u, 1000u}) {
    SCOPED_TRACE(count);
    const Sandbox sandbox;
    keep_trials(sandbox.folder.path() / "many", count);
    EXPECT_EQ(sandbox.run({"report", "many", "--output", "page.html"}).exit_code, 0);
    EXPECT_FALSE(sandbox.has("many/report.html"));
    if (!why_not.empty()) continue;
    const nlohmann::json seen =
        seen_by_browser(sandbox.folder.path() / "page.html", count == 0 ? "drawn" : "used");
    ASSERT_TRUE(seen.is_object());
    EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"];
    EXPECT_EQ(seen["rows"].size(), count);
    EXPECT_EQ(seen["drawn"], seen["charts"]);
    if (count == 0) {
      EXPECT_EQ(seen["headline"], "The sweep has no trials.");
      EXPECT_THAT(seen["charts"], IsEmpty());
    } else if (count == 1) {
      EXPECT_THAT(seen["headline"].get<std::string>(),
                  AllOf(StartsWith("lr=0 (one trial, "), HasSubstr(": loss 0.02; 4 times fewer bytes ")));
      EXPECT_EQ(seen["curves"], 1);
      EXPECT_THAT(seen["charts"], ElementsAre("metric-by-time", "metric-by-step", "compression-error",
                                              "pareto-time", "pareto-bytes", "phases", "stages"));
    } else {
      EXPECT_EQ(seen["curves"], 24) << "no more than can be told apart";
    }
  }
  if (!why_not.empty()) GTEST_SKIP() << why_not;
}

TEST(ReportPage, ComparesOnlyRowsWithAllTrialsDone) {
  const Sandbox sandbox;
  keep_outcomes(sandbox.folder.path() / "some", {{"1", "1", TrialStatus::done, 0.5, 0.2, 0.125},
                                                 {"2", "1", TrialStatus::done, 0.4, 0.3, 0.25},
                                                 {"3", "1", TrialStatus::done, 0.1, 0.1,
                                                  0.0625},  // rows 3 to 6 have a worse second trial, not done
                                                 {"3", "2", TrialStatus::failed, 9, 9, 9},
                                                 {"4", "1", TrialStatus::done, 0.2, 0.1, 0.0625},
                                                 {"4", "2", TrialStatus::stopped, 9, 9, 9},
                                                 {"5", "1", TrialStatus::done, 0.3, 0.1, 0.0625},
                                                 {"5", "2", TrialStatus::waiting, 9, 9, 9},
                                                 {"6", "1", TrialStatus::done, 0.35, 0.1, 0.0625},
                                                 {"6", "2", TrialStatus::running, 9, 9, 9}});
  EXPECT_EQ(sandbox.run({"report", "some"}).exit_code, 0);
  if (const std::string why = why_no_browser(); !why.empty()) GTEST_SKIP() << why;
  const nlohmann::json seen = seen_by_browser(sandbox.folder.path() / "some/report.html", "used");
  ASSERT_TRUE(seen.is_object());
  EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"];
  EXPECT_EQ(seen["pareto-time"].size(), 2u) << "one front";
  EXPECT_EQ(trace_named(seen["pareto-time"], "Pareto front")["x"].dump(), "[200,300]") << "ms";
  const nlohmann::json points = trace_named(seen["pareto-time"], "rows");
  EXPECT_THAT(points["text"],
              ElementsAre("args.lr = 2", "args.lr = 1", "args.lr = 3<br>in no front: 1 done, 1 failed",
                          "args.lr = 4<br>in no front: 1 done, 1 stopped early",
                          "args.lr = 5<br>in no front: 1 done, 1 to come",
                          "args.lr = 6<br>in no front: 1 done, 1 to come"));
  EXPECT_THAT(points["symbols"],
              ElementsAre("circle", "circle", "circle-open", "circle-open", "circle-open", "circle-open"));
  EXPECT_EQ(trace_named(seen["phases"], "forward")["x"].dump(), "[0.0625,0.0625,0.0625,0.0625,0.125,0.25]")
      << "of trials that are done, as in the table; the first row is drawn last";
  EXPECT_THAT(seen["detail"].get<std::string>(), HasSubstr("6-1: done, seed 1, loss 0.35, 2 min 5 s"));
}

TEST(ReportPage, ComparesRowsWithinTheirSweep) {
  const Sandbox sandbox;
  keep_outcomes(sandbox.folder.path() / "slow",
                {{"1", "1", TrialStatus::done, 0.5, 0.4, 0.1}, {"2", "1", TrialStatus::done, 0.4, 0.8, 0.1}});
  keep_outcomes(sandbox.folder.path() / "fast", {{"1", "1", TrialStatus::done, 0.45, 0.1, 0.1},
                                                 {"2", "1", TrialStatus::done, 0.35, 0.2, 0.1},
                                                 {"3", "1", TrialStatus::done, 0.55, 0.2, 0.1}});
  EXPECT_EQ(sandbox.run({"report", "slow", "fast", "--output", "both.html"}).exit_code, 0);
  if (const std::string why = why_no_browser(); !why.empty()) GTEST_SKIP() << why;
  const nlohmann::json seen = seen_by_browser(sandbox.folder.path() / "both.html", "used");
  ASSERT_TRUE(seen.is_object());
  EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"];
  EXPECT_EQ(seen["pareto-time"].size(), 3u) << "one front a sweep";
  EXPECT_EQ(trace_named(seen["pareto-time"], "Pareto front, slow")["x"].dump(), "[400,800]");
  EXPECT_EQ(trace_named(seen["pareto-time"], "Pareto front, fast")["x"].dump(), "[100,200]");
}

TEST(ReportPage, IsReadableAtAnyWidth) {
  const Sandbox sandbox;
  keep_hooks(sandbox.folder.path() / "hooks");
  EXPECT_EQ(sandbox.run({"report", "hooks"}).exit_code, 0);
  if (const std::string why = why_no_browser(); !why.empty()) GTEST_SKIP() << why;
  const nlohmann::json seen = seen_by_browser(sandbox.folder.path() / "hooks/report.html", "drawn");
  ASSERT_TRUE(seen.is_object());
  EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"];
  expect_nothing_overlaps(seen);
  EXPECT_THAT(seen["legend"].dump(),
              HasSubstr(R"(["power_sgd r2 · fp16","ddp.comm_hook = power_sgd\n)"
                        R"(ddp.comm_state_option.matrix_approximation_rank = 2\n)"
                        R"(ddp.comm_state_option.start_powerSGD_iter = 10\nddp.comm_wrapper = fp16"])"))
      << "the full setting is there for whoever points at the name";
  EXPECT_THAT(trace_named(seen["phases"], "forward")["y"].dump(), HasSubstr(R"("power_sgd r1 · bf16")"));
  EXPECT_THAT(seen["phases_ticks"].size(), seen["legend"].size()) << "no row goes without its name";
  std::set<std::string> sizes;
  std::vector<std::string> ticks;
  for (const auto& tick : seen["ticks"]) {
    ticks.push_back(tick.at(0));
    sizes.insert(tick.at(1));
  }
  EXPECT_THAT(ticks, ElementsAre("5", "10", "20", "50", "100", "200"));
  EXPECT_EQ(sizes.size(), 1u) << "none in small print";
  EXPECT_THAT(seen["header"], ElementsAre("Row", "accuracy", "Step", "Trial", "Sent per step", "Compression",
                                          "Memory", "Speed-up", "Trials"));
  const std::vector<std::string> second = seen["cells"].at(1);
  EXPECT_THAT(std::vector<std::string>(second.begin() + 1, second.end()),
              ElementsAre("0.96333", "6.57 ms", "657 ms", "736 kB", "1.36×", "300 MB", "0.761×", "1 done"))
      << "with as many digits as in the terminal's table";
  EXPECT_THAT(seen["how"].get<std::string>(), HasSubstr("2026-01-31 12:00:00 UTC"));
}

TEST(ReportPage, PutsSeveralSweepsOnOnePage) {
  const Sandbox sandbox;
  keep_trials(sandbox.folder.path() / "here/digits", 4, /*has_baseline=*/true);
  keep_trials(sandbox.folder.path() / "there/digits", 4, /*has_baseline=*/true);
  keep_trials(sandbox.folder.path() / "slow", 2);
  const ProcessResult result = sandbox.run(
      {"report", "here/digits", "there/digits/", "slow/", "--output", "all.html", "--jsonl", "all.jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, int> of_sweep;
  std::set<std::string> ids;
  for (const std::string& line : lines_of(sandbox.read("all.jsonl"))) {
    const auto trial = nlohmann::json::parse(line);
    ++of_sweep[trial.at("values").at("sweep")];
    ids.insert(trial.at("id"));
  }
  EXPECT_EQ(of_sweep, (std::map<std::string, int>{{"here/digits", 4}, {"there/digits", 4}, {"slow", 2}}));
  EXPECT_EQ(ids.size(), 10u) << "the same config in two sweeps is two trials";
  if (const std::string why = why_no_browser(); !why.empty()) GTEST_SKIP() << why;
  const nlohmann::json seen = seen_by_browser(sandbox.folder.path() / "all.html", "used");
  ASSERT_TRUE(seen.is_object());
  EXPECT_THAT(seen["problems"], IsEmpty()) << seen["problems"];
  EXPECT_EQ(seen["title"], "here/digits, there/digits, slow");
  EXPECT_EQ(seen["state"], "10 trials, 10 done");
  EXPECT_THAT(seen["rows"].get<std::vector<std::string>>(), ::testing::Contains("sweep=slow lr=1"));
  const std::vector<std::string> headline = lines_of(seen["headline"]);
  ASSERT_EQ(headline.size(), 6u) << "two lines of each sweep";
  EXPECT_THAT(headline[2], StartsWith("slow: No best: the lowest loss "));
  EXPECT_THAT(headline[3], AllOf(StartsWith("slow: Lowest: lr=1 (one trial, "),
                                 HasSubstr(": loss 0.01961; 4 times fewer bytes ")));
  EXPECT_THAT(seen["legend"].dump(), HasSubstr(R"(["slow: lr=1","args.lr = 1\nsweep = slow"])"));
  expect_nothing_overlaps(seen);
  EXPECT_THAT(seen["charts"].get<std::vector<std::string>>(), ::testing::Contains("speedups"));
  EXPECT_EQ(seen["drawn"], seen["charts"]);
}

}  // namespace
}  // namespace hookline
