// hookline advise as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/free_port.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

class Advise : public ::testing::Test {
 protected:
  ProcessResult advise(const std::vector<std::string>& arguments) const { return run("advise", arguments); }
  ProcessResult run(const std::string& verb, const std::vector<std::string>& arguments) const {
    return testing::run_process(HOOKLINE_BINARY, options_for(verb, arguments));
  }
  ProcessOptions options_for(const std::string& verb, const std::vector<std::string>& arguments) const {
    ProcessOptions options;
    options.folder = folder_.path();
    options.environment = {{"OMP_NUM_THREADS", "1"},
                           {"CUDA_VISIBLE_DEVICES", ""},
                           {"TMPDIR", folder_.path().string()},
                           {"XDG_CONFIG_HOME", folder_.path().string()}};
    options.limit = std::chrono::minutes(4);
    options.arguments = {verb};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    return options;
  }
  std::string refusal_of(const std::vector<std::string>& arguments) const {
    const ProcessResult result = advise(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& text) const {
    EXPECT_EQ(refusal_of(arguments), "hookline: error: " + text + "\n  see: hookline advise --help\n");
  }
  std::vector<std::string> left_in_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    return names;
  }
  TemporaryFolder folder_;
};

TEST_F(Advise, PredictsEachSettingAndMeasuresTheBaselineAndTheBest) {
  const ProcessResult result = advise({"--shape", "700x600", "--shape", "700", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto advice = nlohmann::json::parse(result.out);
  ASSERT_EQ(advice.size(), 1U);
  const auto& model = advice[0];
  EXPECT_EQ(model["parameters"], 700 * 600 + 700);
  EXPECT_EQ(model["ranks"], 2);
  EXPECT_EQ(model["hosts"], 1);
  EXPECT_FALSE(model.contains("elsewhere"));
  std::set<std::string> names;
  for (const auto& each : model["settings"]) {
    names.insert(each["name"]);
    if (each["name"] == "no hook" || each["name"] == model["chosen"]) {
      EXPECT_GT(each["measured_seconds"], 0) << each;
    }
    if (each["name"] != "no hook") {
      EXPECT_GT(each["predicted_seconds"], 0) << each;
    }
  }
  for (const char* name : {"no hook", "fp16", "bf16", "power_sgd(rank=1)", "power_sgd(rank=4) in fp16"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_THAT(left_in_folder(), IsEmpty());
}

TEST_F(Advise, PredictsForAnotherNetworkAndMoreRanks) {
  const ProcessResult result = advise(
      {"--parameters", "500000", "--allow", "half", "--link", "100mbit,1ms", "--ranks", "16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto advice = nlohmann::json::parse(result.out);
  const auto& there = advice[0]["elsewhere"];
  EXPECT_EQ(there["ranks"], 16);
  EXPECT_EQ(there["link"]["latency_seconds"], 0.001);
  // 2 MB over 16 hosts at 12.5 MB/s take 0.3 s, and 30 messages 30 ms.
  double no_hook = 0, half = 0;
  for (const auto& each : there["settings"]) {
    if (each["name"] == "no hook") no_hook = each["predicted_seconds"];
    if (each["name"] == "fp16") half = each["predicted_seconds"];
  }
  EXPECT_GT(no_hook, 0.33);
  EXPECT_LT(no_hook, 1);
  EXPECT_LT(half, 0.85 * no_hook);
  EXPECT_NE(there["best"], "no hook");
}

TEST_F(Advise, ShowsATable) {
  const ProcessResult result =
      advise({"--parameters", "500000", "--allow", "half", "--link", "1gbit", "--ranks", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: --link 1gbit names no latency: predictions assume 0 s, "
                        "which is too little between hosts; add it, as in --link 1gbit,0.2ms\n"));
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("500000 parameters, 2 MB of gradients a step · 2 ranks on 1 host over shared memory\n"),
            HasSubstr("there: 4 ranks on 4 hosts, 1000 Mbit/s, latency 0 s. Extrapolated from what was "
                      "measured here: no such run was made.\n"),
            HasSubstr("hook                                    predicted    measured     predicted there\n"),
            HasSubstr("\n  fp16"), HasSubstr("<- best")));
}

TEST_F(Advise, TakesTheSlowestLinkOfATestOverSeveralHosts) {
  std::ofstream(folder_.path() / "link.json")
      << R"({"links": [{"same_node": true, "latency_seconds": 1, "bytes_per_second": 5},)"
      << R"({"same_node": false, "latency_seconds": 0.0001, "bytes_per_second": 25e6},)"
      << R"({"same_node": false, "latency_seconds": 0.0003, "bytes_per_second": 50e6}]})";
  const ProcessResult result = advise({"--parameters", "50000", "--link", "link.json", "--ranks", "8"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("there: 8 ranks on 8 hosts, 200 Mbit/s, latency 300 µs. "));
}

TEST_F(Advise, RefusesAReportWithoutALinkBetweenHosts) {
  expect_refused({"--parameters", "5", "--link", "./none"},
                 "--link './none' can't be read: No such file or directory");
  std::ofstream(folder_.path() / "inside.json")
      << R"({"links": [{"same_node": true, "latency_seconds": 1e-6, "bytes_per_second": 5e9}]})";
  expect_refused({"--parameters", "5", "--link", "inside.json"},
                 "--link 'inside.json' has no link between hosts: run hookline test on two hosts, or write "
                 "1gbit,0.2ms");
  for (const char* text : {"", "[]", R"({"links": 3})", R"({"links": [{}]})", "nonsense"}) {
    std::ofstream(folder_.path() / "other.json") << text;
    EXPECT_THAT(refusal_of({"--parameters", "5", "--link", "other.json"}),
                HasSubstr("--link 'other.json' is not a report of hookline test"));
  }
}

TEST_F(Advise, RunsAProgramOfTheUsers) {
  const ProcessResult result = advise({"--processes-per-node", "2", "--json", TRAINING_PROGRAM});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)[0]["ranks"], 2);
}

TEST_F(Advise, ShowsPartialResultsOfAProgramThatEndsEarly) {
  // Of the 46 steps, 36 run without a hook.
  const ProcessResult result = advise({"--processes-per-node", "2", TRAINING_PROGRAM, "--epochs", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("\n  no hook +[0-9.]+ ms\n"));
  EXPECT_THAT(result.out,
              HasSubstr("The program ended before the fastest had been measured: let it take 300 steps, or "
                        "600 on a GPU, to see which is best.\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("<- best here")));
}

TEST_F(Advise, IsRunByTheWizard) {
  std::ofstream(folder_.path() / "answers") << "1\n2\n";
  ProcessOptions options;
  options.folder = folder_.path();
  options.environment = {
      {"OMP_NUM_THREADS", "1"}, {"CUDA_VISIBLE_DEVICES", ""}, {"TMPDIR", folder_.path().string()}};
  options.limit = std::chrono::minutes(4);
  options.arguments = {"config", "--measure", "--parameters", "300000", "--answers", "answers", "--yes"};
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, HasSubstr("Measuring hooks on this machine …\n"));
  for (const char* hook : {"1) no ", "3) fp16 ", "5) power_sgd "}) {
    const std::size_t at = result.out.find(hook);
    ASSERT_NE(at, std::string::npos) << hook;
    EXPECT_THAT(result.out.substr(at, result.out.find('\n', at) - at), HasSubstr("s a step here.")) << hook;
  }
}

TEST_F(Advise, SaysThatAProgramEndedTooSoon) {
  std::ofstream(folder_.path() / "short") << "#!/bin/sh\nexit 0\n";
  std::filesystem::permissions(folder_.path() / "short", std::filesystem::perms::owner_all);
  const ProcessResult result = advise({"./short"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: error: the program ended before a hook was chosen: let it take 300 steps "
                        "of a model that "
                        "it prepares, or 600 on a GPU, with more epochs or more data; its logs are in '"));
}

TEST_F(Advise, SaysOnTheHostOfRank0ThatAProgramEndedTooSoon) {
  const std::string port = "rendezvous.main_port=" + std::to_string(testing::free_port());
  const auto on_node = [&](const char* rank) {
    ProcessOptions options =
        options_for("advise", {"--set", "launch.nnodes=2", "--set", "rendezvous.main_address=127.0.0.1",
                               "--set", port, "--processes-per-node", "1", "--set",
                               std::string("launch.node_rank=") + rank, TRAINING_PROGRAM, "--epochs", "1"});
    return std::make_unique<testing::Process>(HOOKLINE_BINARY, options);
  };
  const auto first = on_node("0"), second = on_node("1");
  const ProcessResult of_first = first->wait(), of_second = second->wait();
  EXPECT_EQ(of_first.exit_code, 1) << of_first.err;
  EXPECT_THAT(of_first.err, HasSubstr("error: the program ended before a hook"));
  EXPECT_EQ(of_second.exit_code, 0) << of_second.err;
  EXPECT_THAT(of_second.err, Not(HasSubstr("error")));
}

/// What a run with comm_hook = "auto" says, and leaves behind, if it ends within its first steps.
TEST_F(Advise, IsNotNeededToSeeThatARunWasTooShortToChoose) {
  const ProcessResult result = run("launch", {"--processes-per-node", "2", "--set", "ddp.comm_hook=auto",
                                              TRAINING_PROGRAM, "--epochs", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.err + result.out,
      HasSubstr("hookline: warning: comm_hook auto: the run ended at step 23, before a hook was chosen: "
                "let it take some 300 steps, or name a hook\n"));
  const auto summary =
      nlohmann::json::parse(testing::read_file(folder_.path() / "hookline-runs" / "latest" / "summary.json"));
  EXPECT_TRUE(summary["models"][0]["choice"]["chosen"].is_null()) << summary;
}

TEST_F(Advise, RefusesWhatItCanNotAdviseOn) {
  expect_refused({},
                 "say what to train, with one of these: a program, --model FILE, --shape once for each "
                 "parameter, or --parameters N");
  EXPECT_THAT(refusal_of({"--parameters", "5", "./train"}),
              HasSubstr("say what to train, with only one of these: "));
  EXPECT_THAT(refusal_of({"--parameters", "5", "--link", "1gbit,3"}),
              HasSubstr("--link '1gbit,3' has no valid latency after the comma"));
  expect_refused(
      {"--parameters", "5", "--set", "ddp.shard_optimizer=true"},
      "hookline advise compares DDP's hooks for an unsharded model and optimizer, but the config shards the "
      "optimizer (from command line --set ddp.shard_optimizer): add --set ddp.shard_optimizer=false");
  EXPECT_THAT(
      advise({"--shape", "100000x100000x100"}).err,
      AllOf(HasSubstr("hookline: error: these parameters take 3.64 TiB on each rank, and this host has "),
            HasSubstr("iB of memory: name a smaller model\n")));
  EXPECT_THAT(refusal_of({"--parameters", "5", "--link", "125MB/s"}),
              HasSubstr("--link '125MB/s' is not a speed"));
  expect_refused({"--parameters", "5", "--set", "ddp.comm_hook=fp16"},
                 "--set ddp.comm_hook: hookline advise compares all hooks, so leave it out; to compare only "
                 "some, set ddp.auto.hooks");
  expect_refused(
      {"--parameters", "5", "--processes-per-node", "1"},
      "one rank alone sends nothing, and needs no hook: start two at least, with --processes-per-node 2");
  expect_refused({"--parameters", "5", "--link", "1gbit,61s"},
                 "--link '1gbit,61s' has too long a latency: a latency must be at most 60s");
}

TEST_F(Advise, RefusesMoreRanksOnAnUnknownNetwork) {
  expect_refused(
      {"--parameters", "5000", "--ranks", "8"},
      "--ranks 8 differs from the 2 ranks of this host: to predict for 8 ranks, name a network, as in "
      "--link 1gbit,0.2ms");
  EXPECT_THAT(left_in_folder(), IsEmpty());
}

TEST_F(Advise, RefusesRowsForAProgram) {
  expect_refused(
      {"--rows", "8", TRAINING_PROGRAM},
      std::string("--rows is for a model without a program: '") + TRAINING_PROGRAM + "' has its own batches");
}

}  // namespace
}  // namespace hookline
