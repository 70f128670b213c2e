// `hookline launch` of ranks that a signal kills: their error files, and the launcher's report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "cli/run_hookline.h"
#include "support/sanitized.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using testing::children_of;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::ProcessResult;
using testing::Sandbox;

/// Sanitizers install their own handlers for most of these signals, but not for SIGABRT.
#define SKIP_WITH_SANITIZER() \
  if (testing::kSanitized) GTEST_SKIP() << "the sanitizer handles the signal"

ProcessResult launch(const Sandbox& sandbox, const std::vector<std::string>& mode, int ranks = 1) {
  std::vector<std::string> arguments = {"launch", "--processes-per-node", std::to_string(ranks),
                                        CRASHING_RANK};
  arguments.insert(arguments.end(), mode.begin(), mode.end());
  return sandbox.run(arguments);
}

bool has_error_file(const Sandbox& sandbox, int rank = 0) {
  return std::filesystem::exists(sandbox.run_folder() + "/attempt_0/" + std::to_string(rank) + "/error.json");
}

/// The text with every number that varies between runs replaced by N.
std::string without_numbers(const std::string& text) {
  std::string plain = std::regex_replace(text, std::regex("0x[0-9a-f]{3,}"), "0xN");
  plain = std::regex_replace(plain, std::regex("thread [0-9]+ "), "thread N ");
  plain = std::regex_replace(plain, std::regex(", core dumped"), "");
  plain = std::regex_replace(plain, std::regex("at /[^ ]*/tests/cli/"), "at tests/cli/");
  plain = std::regex_replace(plain, std::regex("crashing_rank\\.cc:[0-9]+"), "crashing_rank.cc:N");
  return std::regex_replace(plain, std::regex("in /[^ ]*/tests/crashing_rank\\)"), "in crashing_rank)");
}

TEST(FatalSignal, ShowsStepReasonAndStackOfTheRank) {
  SKIP_WITH_SANITIZER();
  const Sandbox sandbox;
  const ProcessResult result = launch(sandbox, {"null"}, 2);
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(
      without_numbers(result.err),
      HasSubstr("hookline: error: rank 1 was killed by SIGSEGV (signal 11)\n"
                "  its error at step 3:\n"
                "    SIGSEGV: the program used address 0x0, where there is no memory\n"
                "    in thread N 'crashing_rank', the innermost call first:\n"
                "      frame #0: (anonymous namespace)::write_to_null() at tests/cli/crashing_rank.cc:N (0xN "
                "in crashing_rank)\n"
                "      frame #1: (anonymous "
                "namespace)::crash(std::__cxx11::basic_string<char, std::char_traits<char>, "
                "std::allocator<char> > const&) at tests/cli/crashing_rank.cc:N (0xN in crashing_rank)\n"
                "      frame #2: main at tests/cli/crashing_rank.cc:N (0xN in crashing_rank)\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("names are missing"))) << "addr2line is a part of binutils";
  EXPECT_FALSE(has_error_file(sandbox, 0));
}

struct Case {
  std::string mode;
  int signal;
  std::string reason;
  std::string frame;  // regular expression for the innermost frame
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.mode; }

class FatalSignals : public ::testing::TestWithParam<Case> {};

TEST_P(FatalSignals, AreReportedFromTheMainThreadAndFromAnother) {
  const Case& c = GetParam();
  if (c.signal != SIGABRT) SKIP_WITH_SANITIZER();
  for (const bool in_thread : {false, true}) {
    if (in_thread && c.mode == "overflow") continue;  // no stack is left to report from
    SCOPED_TRACE(in_thread);
    const Sandbox sandbox;
    const ProcessResult result =
        launch(sandbox, in_thread ? std::vector<std::string>{c.mode, "thread"} : std::vector{c.mode});
    EXPECT_EQ(result.exit_code, 128 + c.signal);
    EXPECT_THAT(result.err, AllOf(HasSubstr("\n  its error at step 3:\n    " + c.reason),
                                  ContainsRegex("\n      frames? #0[^:]*: " + c.frame)))
        << result.err;
    if (c.mode != "overflow") {
      EXPECT_THAT(result.err, HasSubstr("(anonymous namespace)::crash("));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    FatalSignal, FatalSignals,
    ::testing::Values(
        Case{"null", SIGSEGV, "SIGSEGV: the program used address 0x0, where there is no memory\n",
             ".*write_to_null"},
        Case{"call", SIGSEGV, "SIGSEGV: the program used address 0x0, where there is no memory\n",
             "0x0, where there is no code\n      frame #1: [^\n]*call_null"},
        Case{"abort", SIGABRT,
             "SIGABRT: the program called abort(), as a failed assert does; what it wrote to standard error "
             "may say why\n",
             ""},
        Case{"overflow", SIGSEGV, "SIGSEGV: the thread's stack overflowed at address 0x",
             ".*recurse\\(int\\) at .*"},
        Case{"divide", SIGFPE,
             "SIGFPE: an integer was divided by zero, or the result does not fit, at address 0x", ".*divide"},
        Case{"illegal", SIGILL,
             "SIGILL: the processor does not know the instruction: the program may be built for another one; "
             "at address 0x",
             ".*crash\\("},
        Case{"bus", SIGBUS, "SIGBUS: the memory at address 0x", ".*read_cut_file"}),
    [](const auto& instance) { return instance.param.mode; });

TEST(FatalSignal, AbbreviatesAnOverflowedStack) {
  SKIP_WITH_SANITIZER();
  const Sandbox sandbox;
  const ProcessResult result = launch(sandbox, {"overflow"});
  EXPECT_THAT(result.err, AllOf(ContainsRegex("\n      frames #[01] to #63: [^\n]*recurse\\(int\\)[^\n]*\n"
                                              "      [0-9]+ calls between are left out\n"),
                                ContainsRegex("\n      frame #[0-9]+: main at ")));
}

TEST(FatalSignal, KeepsTheReportOfTheExceptionThatCausedIt) {
  const Sandbox sandbox;
  const ProcessResult result = launch(sandbox, {"reported"});
  EXPECT_EQ(result.exit_code, 128 + SIGABRT);
  EXPECT_THAT(result.err, AllOf(HasSubstr("\n  its error at step 3:\n"
                                          "    std::runtime_error: no more memory\n"
                                          "  it wrote nothing to standard error\n"),
                                Not(HasSubstr("frame #"))));
}

TEST(FatalSignal, DoesNotReplaceTheProgramsHandlers) {
  for (const std::string mode : {"own-handler", "later-handler"}) {
    SCOPED_TRACE(mode);
    const Sandbox sandbox;
    const ProcessResult result = launch(sandbox, {mode});
    EXPECT_EQ(result.exit_code, 7);
    EXPECT_THAT(result.out, HasSubstr("[0] the program's own handler\n"));
    EXPECT_FALSE(has_error_file(sandbox));
  }
}

TEST(FatalSignal, IsReportedWhenTheProgramsHandlerChains) {
  SKIP_WITH_SANITIZER();
  const Sandbox sandbox;
  const ProcessResult result = launch(sandbox, {"chain"});
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(result.out, HasSubstr("[0] the program's own handler\n"));
  EXPECT_THAT(result.err, ContainsRegex("\n      frame #0: [^\n]*write_to_null"));
}

TEST(FatalSignal, InAForkedChildIsNotReportedForTheRank) {
  const Sandbox sandbox;
  const ProcessResult result = launch(sandbox, {"child"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(has_error_file(sandbox));
}

TEST(FatalSignal, NamesTheProcessThatSentIt) {
  SKIP_WITH_SANITIZER();
  const Sandbox sandbox;
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", CRASHING_RANK, "wait"}));
  ASSERT_TRUE(process.wait_for("[0] in step 3"));
  const pid_t rank = children_of(testing::agent_of(process.pid())).at(0);
  kill(rank, SIGBUS);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGBUS);
  EXPECT_THAT(result.err, HasSubstr("\n    SIGBUS: process " + std::to_string(getpid()) + " sent it\n"));
}

TEST(FatalSignal, SentToTerminateARankLeavesNoErrorFile) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    const Sandbox sandbox;
    Process process(HOOKLINE_BINARY, sandbox.options({"launch", CRASHING_RANK, "wait"}));
    ASSERT_TRUE(process.wait_for("[0] in step 3"));
    kill(children_of(testing::agent_of(process.pid())).at(0), signal);
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_FALSE(has_error_file(sandbox));
  }
}

TEST(FatalSignal, WritesAnErrorFileThatTorchelasticReads) {
  const Sandbox sandbox;
  launch(sandbox, {"abort"});
  const auto error =
      nlohmann::json::parse(testing::read_file(sandbox.run_folder() + "/attempt_0/0/error.json"));
  EXPECT_TRUE(error.at("message").at("message").is_string());
  const auto& extra = error.at("message").at("extraInfo");
  EXPECT_EQ(extra.at("py_callstack"), "");
  EXPECT_TRUE(extra.at("timestamp").is_string());
  EXPECT_EQ(extra.at("type"), "SIGABRT");
  EXPECT_EQ(extra.at("step"), 3);
  EXPECT_EQ(extra.at("hook"), "power_sgd(rank=2)");
}

TEST(FatalSignal, ShowsModulesAndOffsetsWithoutAddr2line) {
  const Sandbox sandbox;
  auto options = sandbox.options({"launch", CRASHING_RANK, "abort"});
  options.environment["PATH"] = "/nowhere";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 128 + SIGABRT);
  EXPECT_THAT(result.err,
              AllOf(ContainsRegex("\n      frame #0: 0x[0-9a-f]+ in /[^ ]*libc.so.6\n"),
                    HasSubstr("\n      names are missing: addr2line, of binutils, is not here\n")));
}

TEST(FatalSignal, IsLeftToTheAddressSanitizer) {
  if (!testing::kAddressSanitized) GTEST_SKIP() << "built without the address sanitizer";
  const Sandbox sandbox;
  const ProcessResult result = launch(sandbox, {"null"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(testing::read_file(sandbox.run_folder() + "/attempt_0/0/stderr.log"),
              HasSubstr("AddressSanitizer: SEGV"));
  EXPECT_FALSE(has_error_file(sandbox));
}

}  // namespace
}  // namespace hookline
