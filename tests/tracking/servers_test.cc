// What a run logs, read back from real TensorBoard and MLflow servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/process.h"
#include "support/tracking_servers.h"
#include "tracking/json_lines.h"
#include "tracking/mlflow_name.h"
#include "tracking/mlflow_run.h"
#include "tracking/tensorboard_events.h"
#include "tracking/trackers.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::eventually;
using testing::free_port;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::kServerPatience;
using testing::Mlflow;
using ::testing::Not;
using testing::ProcessOptions;
using testing::Server;
using testing::shared_mlflow;
using ::testing::SizeIs;
using testing::TemporaryFolder;

std::map<std::string, std::string> parameters_of(const json& run) {
  std::map<std::string, std::string> parameters;
  for (const json& each : run.at("data").value("params", json::array()))
    parameters.emplace(each.at("key"), each.at("value"));
  return parameters;
}

/// Trackers that wait at their end as long as a server may take.
Trackers patient(TrackedRun run) { return Trackers(std::move(run), Trackers::Clock::now(), kServerPatience); }

MlflowOptions options_for(const Mlflow& server, const std::string& experiment) {
  return mlflow_options(server.url(), experiment);
}

TEST(TensorBoard, ShowsWhatARunHasLogged) {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "runs" / "first";
  fs::create_directories(run);
  {
    Trackers trackers = patient({run, {{"ddp.comm_hook", "power_sgd"}, {"launch.backend", "gloo"}}});
    trackers.add(std::make_unique<TensorBoardEvents>(run));
    for (int step = 1; step <= 500; ++step)
      trackers.log(step, 1000 * step, {{"loss", 1.0 / step}, {"accuracy", 0.5}});
    trackers.log(501, 0, {{"loss", std::numeric_limits<double>::quiet_NaN()}});
  }
  {
    Trackers restarted = patient({run, {}});
    restarted.add(std::make_unique<TensorBoardEvents>(run));
    restarted.log(502, 0, {{"loss", 0.25}});
  }
  Server server("tensorboard", {"--logdir", (folder.path() / "runs").string()}, free_port(), "/data/runs");
  json points;
  const auto is_read = [&] {
    points = server.get("/data/plugin/scalars/scalars?run=first&tag=loss");
    return points.is_array() && points.size() == 502;
  };
  EXPECT_EQ(server.get("/data/runs"), json({"first"}));
  ASSERT_TRUE(eventually(is_read, kServerPatience)) << points.dump().substr(0, 1000);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(points[i][1], i + 1) << "step";
    EXPECT_FLOAT_EQ(points[i][2].get<float>(), 1.0F / static_cast<float>(i + 1));
  }
  EXPECT_FALSE(points[500][2].is_number() && std::isfinite(points[500][2].get<double>()))
      << points[500].dump();
  EXPECT_EQ(points[501][1], 502);
  const json tags = server.get("/data/plugin/scalars/tags").at("first");
  EXPECT_TRUE(tags.contains("loss") && tags.contains("accuracy") && tags.contains("bytes_sent"))
      << tags.dump();
  EXPECT_THAT(server.get("/data/plugin/text/tags").dump(), HasSubstr("config"));
  const std::string text = server.get("/data/plugin/text/text?run=first&tag=config").dump();
  EXPECT_THAT(text, AllOf(HasSubstr("<table>"), HasSubstr("power_sgd"), HasSubstr("gloo")));
}

// Reads as TensorBoard does: record by record, checking each checksum.
TEST(TensorBoard, ReadsEveryRecordIntact) {
  const TemporaryFolder folder;
  {
    Trackers trackers = patient({folder.path(), {{"ddp.comm_hook", "fp16"}}});
    trackers.add(std::make_unique<TensorBoardEvents>(folder.path()));
    for (int step = 1; step <= 3; ++step)
      trackers.log(step, 0,
                   {{"größe", -1e30},
                    {"gr\xf6\xdf"
                     "e",
                     1}});
  }
  const std::string file = fs::directory_iterator(folder.path())->path().string();
  const testing::ProcessResult read = testing::run_process(
      std::string(TRACKERS_BIN) + "/python3",
      {{"-c",
        "import sys\n"
        "from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader\n"
        "from tensorboard.compat.proto.event_pb2 import Event\n"
        "for record in RawEventFileLoader(sys.argv[1]).Load():\n"
        "  event = Event.FromString(record)\n"
        "  print(event.WhichOneof('what'), event.step, event.file_version, *[v.tag for v in "
        "event.summary.value])\n",
        file},
       {{"PYTHONWARNINGS", "ignore"}},
       "",
       {},
       kServerPatience});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(read.out,
            "file_version 0 brain.Event:2\nsummary 0  config\nsummary 1  bytes_sent größe gr\uFFFD\uFFFDe\n"
            "summary 2  bytes_sent größe gr\uFFFD\uFFFDe\nsummary 3  bytes_sent größe gr\uFFFD\uFFFDe\n")
      << read.err;
}

TEST(MlflowServer, HasWhatARunHasLogged) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  const fs::path run = folder.path() / "20260102-030405-6";
  fs::create_directories(run);
  std::map<std::string, std::string> config = {{"ddp.comm_hook", "power_sgd"},
                                               {"ddp.comm_state_option.start_powerSGD_iter", "10"},
                                               {"launch.note", std::string(9000, 'x')}};
  for (int i = 0; i < 150; ++i) config.emplace("args.k" + std::to_string(i), std::to_string(i));
  {
    Trackers trackers = patient({run, config});
    trackers.add(std::make_unique<MlflowRun>(options_for(server, "a new one")));
    for (int step = 1; step <= 1500; ++step) trackers.log(step, 10 * step, {{"loss", 1.0 / step}});
    trackers.log(1501, 0,
                 {{"loss", std::numeric_limits<double>::quiet_NaN()},
                  {"best", -std::numeric_limits<double>::infinity()},
                  {"top-5 %", 0.75},
                  {"/train//../a:b/", 1}});
  }
  const json runs = server.runs_of("a%20new%20one");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].at("info").at("run_name"), "20260102-030405-6");
  EXPECT_EQ(runs[0].at("info").at("status"), "FINISHED");
  EXPECT_GE(runs[0].at("info").at("end_time").get<std::int64_t>(),
            runs[0].at("info").at("start_time").get<std::int64_t>());
  const auto parameters = parameters_of(runs[0]);
  EXPECT_EQ(parameters.at("ddp.comm_hook"), "power_sgd");
  EXPECT_EQ(parameters.at("launch.note").size(), 6000u);
  EXPECT_EQ(parameters.size(), config.size());
  const auto losses = server.history(runs[0], "loss");
  ASSERT_THAT(losses, SizeIs(1501));
  EXPECT_EQ(losses[1], std::pair(2, std::string("0.5")));
  EXPECT_EQ(losses[1500], std::pair(1501, std::string("\"NaN\"")));
  EXPECT_THAT(server.history(runs[0], "bytes_sent"), SizeIs(1501));
  EXPECT_THAT(server.history(runs[0], "top-5 _-4cb5e33f"), ElementsAre(std::pair(1501, std::string("0.75"))));
  EXPECT_THAT(server.history(runs[0], "_/train/_/_/a_b/_-1e957077"),
              ElementsAre(std::pair(1501, std::string("1.0"))));
}

/// All characters from U+0001 to U+FFFF as UTF-8, `in_a_text` per string.
std::vector<std::string> all_characters(int in_a_text) {
  std::vector<std::string> texts;
  int count = 0;
  for (unsigned code = 1; code <= 0xFFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;  // skip surrogates
    if (count++ % in_a_text == 0) texts.emplace_back();
    std::string& text = texts.back();
    const auto add = [&](unsigned byte) { text += static_cast<char>(byte); };
    if (code >= 0x800)
      add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F));
    else if (code >= 0x80)
      add(0xC0 | code >> 6);
    add(code >= 0x80 ? 0x80 | (code & 0x3F) : code);
  }
  return texts;
}

TEST(MlflowServer, AcceptsEveryNameAndKeepsThemDistinct) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  std::map<std::string, double> values;
  const auto add = [&](const std::string& name) { values.emplace(name, static_cast<double>(values.size())); };
  for (const std::string& text : all_characters(250)) add(text);
  for (const char* name :
       {"損失", "精度", "a_b", "a:b", "a$b",  "é",     "e\u0301", "\xff",    ".",    "..",   "...",  "..a",
        "/",    "//",   "/a",  "a/",  "a//b", "a/./b", "a/../b",  "a/.../b", "../a", "a/..", ".a/.b"})
    add(name);
  for (const char* text : {"x", "損", "%", "/"}) {
    std::string name;
    for (int i = 0; i < 250; ++i) name += text;
    for (const char* more : {"", "1", "2", "/a"}) add(name + more);
  }
  {
    Trackers trackers = patient({folder.path(), {}});
    trackers.add(std::make_unique<MlflowRun>(options_for(server, "names")));
    trackers.log(1, 0, values);
  }
  const json run = server.runs_of("names").at(0);
  std::map<std::string, double> there;
  for (const json& each : run.at("data").at("metrics")) there.emplace(each.at("key"), each.at("value"));
  EXPECT_EQ(there.erase("bytes_sent"), 1u);
  EXPECT_THAT(there, SizeIs(values.size()));
  for (const auto& [name, value] : values) EXPECT_EQ(there[name_for_mlflow(name)], value) << name;
  for (const char* name : {"損失", "精度", "a_b", "é"})
    EXPECT_EQ(there[name], values[name]) << "called as the program calls it";
}

TEST(MlflowServer, ContinuesARestartedRunAndShowsHowItEnded) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  for (int start = 1; start <= 2; ++start) {
    Trackers trackers = patient({folder.path(), {{"training.seed", "1"}}});
    trackers.add(std::make_unique<MlflowRun>(options_for(server, "restarted")));
    trackers.log(start, 0, {{"loss", start}});
    if (start == 1) {
      Trackers::end_all(RunEnd::failed);
      EXPECT_EQ(server.runs_of("restarted")[0].at("info").at("status"), "FAILED");
    }
  }
  const json runs = server.runs_of("restarted");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].at("info").at("status"), "FINISHED");
  EXPECT_THAT(server.history(runs[0], "loss"), SizeIs(2));
  fs::remove(folder.path() / "mlflow.json");
  {
    Trackers other = patient({folder.path(), {}});
    other.add(std::make_unique<MlflowRun>(options_for(server, "restarted")));
    other.log(1, 0, {});
  }
  EXPECT_THAT(server.runs_of("restarted"), SizeIs(2));
}

TEST(MlflowServer, ReceivesEverythingLoggedDuringAnOutage) {
  const TemporaryFolder folder;
  const int port = free_port();
  auto server = std::make_unique<Mlflow>(folder.path(), port);
  ::testing::internal::CaptureStderr();
  std::optional<Trackers> trackers(std::in_place, TrackedRun{folder.path(), {}}, Trackers::Clock::now(),
                                   kServerPatience);
  trackers->add(std::make_unique<MlflowRun>(options_for(*server, "Default")));
  trackers->log(1, 0, {{"loss", 1}});
  ASSERT_TRUE(eventually([&] { return server->runs_of("Default").size() == 1; }, kServerPatience));
  ASSERT_TRUE(eventually([&] { return server->history(server->runs_of("Default")[0], "loss").size() == 1; },
                         kServerPatience));
  server.reset();
  for (int step = 2; step <= 100; ++step) trackers->log(step, 0, {{"loss", 1}});  // while the server is down
  std::this_thread::sleep_for(std::chrono::seconds(1));                           // the first attempt fails
  server = std::make_unique<Mlflow>(folder.path(), port);
  EXPECT_TRUE(eventually([&] { return server->history(server->runs_of("Default")[0], "loss").size() == 100; },
                         kServerPatience));
  trackers.reset();  // the server has the lines before the tracker gets the reply
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("hookline: warning: metrics can't be written to MLflow at " + server->url() + ": "),
            HasSubstr("hookline: metrics get to MLflow at " + server->url() + " again\n")));
}

TEST(MlflowServer, RefusalsAreLogged) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  ::testing::internal::CaptureStderr();
  {
    Trackers trackers = patient({folder.path(), {}});
    trackers.add(std::make_unique<MlflowRun>(options_for(server, std::string(600, 'x'))));
    trackers.log(1, 0, {{"loss", 1}});
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("metrics can't be written to MLflow at "), HasSubstr("HTTP 400: "),
                    HasSubstr("; training continues without what is lost\n"),
                    HasSubstr("1 line of metrics did not get to MLflow")));
}

// End to end: a launch of two ranks whose config names both trackers.
TEST(MlflowServer, AndTensorBoardHaveWhatALaunchLogs) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  ProcessOptions options;
  options.folder = folder.path();
  options.limit = kServerPatience;
  options.environment = {{"OMP_NUM_THREADS", "1"}, {"MLFLOW_EXPERIMENT_NAME", "digits"}};
  options.arguments = {"launch", "--processes-per-node", "2", "--set", "ddp.comm_hook=fp16"};
  for (const std::string set : {"logging.trackers=tensorboard,mlflow", "logging.mlflow_tracking_uri="})
    options.arguments.insert(options.arguments.end(),
                             {"--set", set.ends_with("uri=") ? set + server.url() : set});
  options.arguments.insert(options.arguments.end(), {DIGITS_PROGRAM, "--epochs", "20"});
  const testing::ProcessResult launched = testing::run_process(HOOKLINE_BINARY, options);
  ASSERT_EQ(launched.exit_code, 0) << launched.err;
  // A busy server may take longer than the run waits for it; the run then logs that.
  const bool is_all_there = launched.err.find("did not get to MLflow") == launched.err.npos &&
                            launched.err.find("could not report the run's end to") == launched.err.npos;
  const bool is_ended = launched.err.find("could not report to MLflow") == launched.err.npos;
  const fs::path run = fs::canonical(folder.path() / "hookline-runs" / "latest");
  std::vector<json> lines;
  std::ifstream in(run / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  ASSERT_FALSE(lines.empty());
  const json runs = server.runs_of("digits");
  ASSERT_THAT(runs, SizeIs(1)) << "one, of rank 0";
  EXPECT_EQ(runs[0].at("info").at("run_name"), run.filename().string());
  EXPECT_EQ(runs[0].at("info").at("status"), is_ended ? "FINISHED" : "RUNNING");
  const auto parameters = parameters_of(runs[0]);
  EXPECT_EQ(parameters.at("ddp.comm_hook"), "fp16");
  if (is_all_there) {
    EXPECT_THAT(server.history(runs[0], "bytes_sent"), SizeIs(lines.size()));
  }

  Server board("tensorboard", {"--logdir", (folder.path() / "hookline-runs").string()}, free_port(),
               "/data/runs");
  const std::string name = run.filename().string();
  EXPECT_THAT(board.get("/data/runs"), Contains(json(name)));
  std::set<std::int64_t> steps;  // it shows one of two lines of the same step
  for (const json& line : lines) steps.insert(line.at("step").get<std::int64_t>());
  ASSERT_TRUE(eventually(
      [&] {
        const json points = board.get("/data/plugin/scalars/scalars?run=" + name + "&tag=bytes_sent");
        return points.is_array() && points.size() == steps.size();
      },
      kServerPatience));
}

}  // namespace
}  // namespace hookline
