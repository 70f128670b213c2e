// What a real MLflow server shows for a run that rank 0 could not finish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/launch/end_tracked_run.h"
#include "support/process.h"
#include "support/tracking_servers.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::eventually;
using ::testing::HasSubstr;
using testing::kServerPatience;
using testing::Mlflow;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::shared_mlflow;
using ::testing::SizeIs;
using testing::TemporaryFolder;

TEST(MlflowStatus, FollowsTheExitCode) {
  const auto status = [](int code) { return mlflow_status(code, /*keeps_checkpoints=*/false); };
  EXPECT_EQ(status(0), "FINISHED");
  for (const int code : {1, 2, 3, 75, 124, 127, 128, 255}) EXPECT_EQ(status(code), "FAILED") << code;
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGXCPU})
    EXPECT_EQ(status(128 + signal), "KILLED");
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL})
    EXPECT_EQ(status(128 + signal), "FAILED") << "a defect of the program's own";
  EXPECT_EQ(mlflow_status(75, /*keeps_checkpoints=*/true), "KILLED") << "another launch resumes it";
}

/// A launch of two ranks, of which rank 0 logs to `server`; `how` says how rank 0 exits (tracked_rank.cc).
ProcessOptions launch(const TemporaryFolder& folder, const std::string& server, const std::string& how,
                      const std::vector<std::string>& sets = {}) {
  ProcessOptions options;
  options.folder = folder.path();
  options.limit = kServerPatience;
  options.environment = {{"OMP_NUM_THREADS", "1"},
                         {"HOOKLINE_CONFIG", std::nullopt},
                         {"MLFLOW_EXPERIMENT_NAME", std::nullopt},
                         {"MLFLOW_TRACKING_URI", std::nullopt}};
  options.arguments = {"launch", "--processes-per-node", "2"};
  std::vector<std::string> all = {"logging.trackers=mlflow", "logging.mlflow_tracking_uri=" + server,
                                  "logging.dir=" + (folder.path() / how).string()};
  all.insert(all.end(), sets.begin(), sets.end());
  for (const std::string& set : all) options.arguments.insert(options.arguments.end(), {"--set", set});
  options.arguments.insert(options.arguments.end(), {TRACKED_RANK, how});
  return options;
}

/// The run id noted in the launch's folder.
std::string run_id(const TemporaryFolder& folder, const std::string& how) {
  return nlohmann::json::parse(testing::read_file(folder.path() / how / "latest" / "mlflow.json"))
      .at("run_id");
}

std::string status_of(Mlflow& server, const TemporaryFolder& folder, const std::string& how) {
  const nlohmann::json info =
      server.get("/api/2.0/mlflow/runs/get?run_id=" + run_id(folder, how)).at("run").at("info");
  EXPECT_EQ(info.contains("end_time"), info.at("status") != "RUNNING") << how;
  return info.at("status");
}

/// False if the launcher gave up waiting for a slow server, which it then logs.
bool has_reported(const std::string& err) { return err.find("could not report to MLflow") == err.npos; }

TEST(MlflowServer, ShowsTheStatusOfARunThatRankZeroCouldNotFinish) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  struct Case {
    const char* how;
    int exit_code;
    const char* status;
  };
  for (const Case& each : std::vector<Case>{{"kill", 137, "KILLED"},
                                            {"crash", 139, "FAILED"},
                                            {"exit", 3, "FAILED"},
                                            {"return", 3, "FAILED"},
                                            {"throw", 134, "FAILED"},
                                            {"exit at once", 0, "FINISHED"},
                                            {"end", 0, "FINISHED"}}) {
    const ProcessResult result = run_process(HOOKLINE_BINARY, launch(folder, server.url(), each.how));
    EXPECT_EQ(result.exit_code, each.exit_code) << each.how << ": " << result.err;
    if (has_reported(result.err)) {
      EXPECT_EQ(status_of(server, folder, each.how), each.status) << each.how;
    }
  }
}

TEST(MlflowServer, ShowsARunAsKilledIfItsLauncherIsStoppedOrKilled) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    fs::remove_all(folder.path() / "wait");
    Process process(HOOKLINE_BINARY, launch(folder, server.url(), "wait"));
    ASSERT_TRUE(process.wait_for("[0] waiting")) << process.err();
    ::kill(process.pid(), signal);
    EXPECT_EQ(process.wait().exit_code, 128 + signal) << process.err();
    // If the launcher was killed, its agent still reports; nothing waits for it.
    const auto is_shown = [&] {
      process.read();
      return !has_reported(process.err()) || status_of(server, folder, "wait") == "KILLED";
    };
    EXPECT_TRUE(eventually(is_shown, kServerPatience)) << signal << ": " << status_of(server, folder, "wait");
  }
}

TEST(MlflowServer, PasswordIsInNoFileAndOnNoCommandLine) {
  const TemporaryFolder folder;
  const std::string password = "the-password-of-mlflow";
  ProcessOptions options = launch(folder, shared_mlflow().url(), "wait");
  options.environment["MLFLOW_TRACKING_USERNAME"] = "somebody";
  options.environment["MLFLOW_TRACKING_PASSWORD"] = password;
  Process process(HOOKLINE_BINARY, options);
  ASSERT_TRUE(process.wait_for("[0] waiting")) << process.err();
  EXPECT_GE(testing::running_with(password).size(), 4U) << "the launcher, its agent and two ranks have it";
  const auto expect_on_no_command_line = [&] {
    for (const pid_t pid : testing::running_with(password))
      EXPECT_THAT(testing::of_process(pid, "cmdline"), Not(HasSubstr(password)));
  };
  expect_on_no_command_line();
  process.signal(SIGTERM);
  // Covers the process that reports the run's end, too.
  while (!testing::running_with(password).empty()) expect_on_no_command_line();
  const ProcessResult result = process.wait();
  EXPECT_THAT(result.out + result.err, Not(HasSubstr(password)));
  int files = 0;
  for (const fs::directory_entry& each : fs::recursive_directory_iterator(folder.path())) {
    if (!each.is_regular_file()) continue;
    ++files;
    EXPECT_THAT(testing::read_file(each.path()), Not(HasSubstr(password))) << each.path();
  }
  EXPECT_GT(files, 4);
}

TEST(MlflowServer, ShowsARestartedRunAsRunningUntilItsEnd) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  const std::string how = "kill, then 0";
  Process process(HOOKLINE_BINARY, launch(folder, server.url(), how,
                                          {"launch.max_restarts=1", "launch.restart_delay_seconds=3"}));
  ASSERT_TRUE(process.wait_for("restarting all ranks")) << process.err();
  EXPECT_EQ(status_of(server, folder, how), "RUNNING");
  const std::string id = run_id(folder, how);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (has_reported(result.err)) {
    EXPECT_EQ(status_of(server, folder, how), "FINISHED");
  }
  EXPECT_EQ(run_id(folder, how), id) << "both attempts are one run";
}

TEST(MlflowServer, KeepsAStatusThatSomebodyElseHasSet) {
  const TemporaryFolder folder;
  Mlflow& server = shared_mlflow();
  ProcessOptions options = launch(folder, server.url(), "wait");
  options.environment["MLFLOW_EXPERIMENT_NAME"] = "kept";
  Process process(HOOKLINE_BINARY, options);
  ASSERT_TRUE(process.wait_for("[0] waiting")) << process.err();
  const auto runs = server.runs_of("kept");
  ASSERT_THAT(runs, SizeIs(1));
  const std::string id = runs[0].at("info").at("run_id");
  server.post("/api/2.0/mlflow/runs/update", {{"run_id", id}, {"status", "FINISHED"}, {"end_time", 1}});
  ::kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 143);
  EXPECT_EQ(status_of(server, folder, "wait"), "FINISHED");
}

bool refuses_connections(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool refused = connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
                       errno == ECONNREFUSED;
  close(client);
  return refused;
}

TEST(MlflowServer, ThatHasGoneIsNamedInAWarning) {
  const TemporaryFolder folder;
  auto server = std::make_unique<Mlflow>(folder.path());
  const std::string url = server->url();
  Process process(HOOKLINE_BINARY, launch(folder, url, "wait"));
  ASSERT_TRUE(process.wait_for("[0] waiting")) << process.err();
  const std::string id = server->runs_of("Default").at(0).at("info").at("run_id");
  server.reset();
  const std::string port = url.substr(url.rfind(':') + 1);
  // The server's processes may still accept connections for a moment.
  ASSERT_TRUE(testing::eventually([&] { return refuses_connections(std::stoi(port)); }));
  ::kill(process.pid(), SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 143) << "the run's";
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: warning: could not report to MLflow at " + url +
                              " that the run is KILLED: Failed to connect to 127.0.0.1 port " + port +
                              " after "),  // curl appends the milliseconds
                    EndsWith(" ms: Couldn't connect to server; it may show the run as RUNNING forever.\n"
                             "  Set it by hand: python3 -c \"import mlflow; mlflow.MlflowClient('" +
                             url + "').set_terminated('" + id + "', 'KILLED')\"\n")));
}

/// A server that accepts connections but never answers.
class Silent {
 public:
  Silent() : listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(bind(listening_, address, length), 0);
    EXPECT_EQ(listen(listening_, 16), 0);
    EXPECT_EQ(getsockname(listening_, address, &length), 0);
  }
  ~Silent() { close(listening_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }

 private:
  int listening_;
  sockaddr_in address_{};
};

/// A launch whose rank 0 writes `note`, or by default the note of a run on `server`, and exits with code 3.
ProcessOptions launch_with_note(const TemporaryFolder& folder, const std::string& server,
                                std::string note = "") {
  ProcessOptions options = launch(folder, server, "runs");
  options.arguments.resize(options.arguments.size() - 2);
  if (note.empty()) note = R"({"tracking_uri": ")" + server + R"(", "run_id": "abc"})";
  folder.write("rank.sh",
               "#!/bin/sh\n[ \"$RANK\" = 0 ] || exec sleep 60\nprintf '%s' '" + note +
                   "' > \"$HOOKLINE_RUN_DIR/mlflow.json\"\nexit 3\n",
               true);
  options.arguments.emplace_back("./rank.sh");
  return options;
}

TEST(MlflowServer, ThatNeverAnswersTimesOutAndKeepsTheExitCode) {
  const TemporaryFolder folder;
  const Silent server;
  const ProcessResult result = run_process(HOOKLINE_BINARY, launch_with_note(folder, server.url()));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: warning: could not report to MLflow at " + server.url()),
                                HasSubstr(" FAILED: Operation timed out after ")));
}

TEST(MlflowServer, GetsNoReportOfARunWhoseNoteIsDamaged) {
  const TemporaryFolder folder;
  const Silent server;
  const ProcessResult result =
      run_process(HOOKLINE_BINARY, launch_with_note(folder, server.url(), R"({"tracking_)"));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const fs::path note = fs::canonical(folder.path() / "runs" / "latest") / "mlflow.json";
  EXPECT_THAT(
      result.err,
      EndsWith("hookline: warning: could not report to MLflow that the run is FAILED: '" + note.string() +
               "' does not say which run it is; MLflow may show it as RUNNING forever\n"));
}

// Ctrl+C, as a user who does not want to wait presses it.
TEST(MlflowServer, ThatNeverAnswersIsLeftAtOnceByCtrlC) {
  const TemporaryFolder folder;
  const Silent server;
  Process process(HOOKLINE_BINARY, launch_with_note(folder, server.url()));
  ASSERT_TRUE(process.wait_for("rank 0 exited with code 3")) << process.err();
  const fs::path note = fs::canonical(folder.path() / "runs" / "latest") / "mlflow.json";
  const auto asks = [&] {
    for (const pid_t child : testing::children_of(process.pid()))
      if (testing::of_process(child, "comm") == "end_mlflow_run\n") return true;
    return false;
  };
  ASSERT_TRUE(eventually(asks));
  ::kill(process.pid(), SIGINT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(
      result.err,
      EndsWith(
          "hookline: warning: could not report to MLflow that the run is FAILED: SIGINT arrived before it "
          "answered; it may show the run as RUNNING forever. '" +
          note.string() + "' has the run's id\n"));
}

}  // namespace
}  // namespace hookline
