// How a training program finds its place and its config: Accelerator::from_env.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/error.h"
#include "config/resolve.h"
#include "parallel/accelerator.h"
#include "parallel/rank/rank_status.h"
#include "parallel/uncaught.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::failure_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Sets a variable (or unsets it, for nullptr) and restores it afterwards.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// As without a launcher: none of its variables is set.
struct NoLauncher {
  Variable rank{"RANK", nullptr}, size{"WORLD_SIZE", nullptr}, local{"LOCAL_RANK", nullptr},
      address{"MASTER_ADDR", nullptr}, port{"MASTER_PORT", nullptr}, config{"HOOKLINE_CONFIG", nullptr};
};

TEST(FromEnv, IsOneRankWithoutALauncher) {
  const NoLauncher no_launcher;
  const Variable hook("HOOKLINE_DDP__COMM_HOOK", "fp16");
  Accelerator accelerator = Accelerator::from_env();
  EXPECT_EQ(accelerator.world_size(), 1);
  EXPECT_TRUE(accelerator.is_local_main_process());
  auto model = accelerator.prepare(torch::nn::Linear(4, 2));
  accelerator.backward(model->forward(torch::ones({3, 4})).sum());
  EXPECT_EQ(model.ddp().communication_stats().pipeline, "fp16");
  EXPECT_TRUE(torch::equal(accelerator.gather(torch::tensor(3)), torch::tensor({3})));
}

TEST(FromEnv, NamesAVariableThatIsWrong) {
  const NoLauncher no_launcher;
  const auto failure = [] { return failure_of<Error>([] { Accelerator::from_env(); }); };
  {
    const Variable local("LOCAL_RANK", "first");
    EXPECT_EQ(failure(), "LOCAL_RANK is 'first': it must be a whole number from 0 to 1048575");
  }
  const Variable size("WORLD_SIZE", "2");
  EXPECT_EQ(
      failure(),
      "RANK is not set, though WORLD_SIZE is: start the program with 'hookline launch', or with neither "
      "RANK nor WORLD_SIZE to run it as one rank");
  {
    const Variable rank("RANK", "x");
    EXPECT_THAT(failure(), AllOf(StartsWith("RANK is 'x': "), EndsWith(" from 0 to 1")));
  }
  {
    const Variable rank("RANK", "2");
    EXPECT_THAT(failure(), AllOf(StartsWith("RANK is '2': "), EndsWith(" from 0 to 1")));
  }
  const Variable rank("RANK", "0");
  EXPECT_THAT(failure(), StartsWith("MASTER_PORT is not set, though RANK is: "));
  const Variable port("MASTER_PORT", "70000");
  EXPECT_THAT(failure(), AllOf(StartsWith("MASTER_PORT is '70000': "), EndsWith(" from 1 to 65535")));
  const Variable address("MASTER_ADDR", "no such host");
  EXPECT_THAT(failure(), HasSubstr("MASTER_ADDR is 'no such host', which can't be resolved: "));
}

template <class Failure>
[[noreturn]] void end_with(const char* text) {
  end_uncaught_errors_with_a_message();
  std::thread([text] { throw Failure(text); }).join();  // GoogleTest would catch it on its own thread
  std::abort();
}

TEST(UncaughtDeathTest, PrintsTheMessageAndSetsTheExitCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using ::testing::ExitedWithCode;
  EXPECT_EXIT(end_with<ConfigError>("run.toml:1:1: error"), ExitedWithCode(2),
              "^hookline: error: run.toml:1:1: error\n$");
  EXPECT_EXIT(end_with<HookError>("no such hook"), ExitedWithCode(2), "^hookline: error: no such hook\n$");
  EXPECT_EXIT(end_with<Error>("the ranks differ"), ExitedWithCode(1),
              "^hookline: error: the ranks differ\n$");
  EXPECT_EXIT(end_with<std::runtime_error>("of the program"), ::testing::KilledBySignal(SIGABRT),
              "of the program");
}

TEST(UncaughtDeathTest, WritesAnErrorFileThatTorchelasticReads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The child process runs this test from the start, with the variable set.
  const char* given = std::getenv("TORCHELASTIC_ERROR_FILE");
  const std::string file =
      given ? given : ::testing::TempDir() + "error-" + std::to_string(::getpid()) + ".json";
  const auto end = [&](auto failure) {
    tell_step(0, 12, [] { return StepDetails{}; });
    remember_hook("power_sgd(rank=1, start=2)");
    end_with<decltype(failure)>("out of \xff\"luck\"");
  };
  const Variable variable("TORCHELASTIC_ERROR_FILE", file.c_str());
  EXPECT_EXIT(end(std::range_error("")), ::testing::KilledBySignal(SIGABRT), "");
  std::ifstream in(file);
  const auto error = nlohmann::json::parse(in, nullptr, false);
  ASSERT_TRUE(error.is_object());
  EXPECT_EQ(error["message"]["message"], "out of \uFFFD\"luck\"");
  const auto& extra = error["message"]["extraInfo"];
  EXPECT_EQ(extra["type"], "std::range_error");
  EXPECT_EQ(extra["step"], 12);
  EXPECT_EQ(extra["hook"], "power_sgd(rank=1, start=2)");
  EXPECT_EQ(extra["py_callstack"], "");
  EXPECT_GT(std::stoll(extra["timestamp"].get<std::string>()), 1'700'000'000);
  std::filesystem::remove(file);
}

TEST(UncaughtDeathTest, WarnsIfTheErrorFileCannotBeWritten) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Variable nowhere("TORCHELASTIC_ERROR_FILE", "/nowhere/error.json");
  EXPECT_EXIT(end_with<Error>("the ranks differ"), ::testing::ExitedWithCode(1),
              "^hookline: warning: can't write the error file '/nowhere/error.json': No such file or "
              "directory\nhookline: error: the "
              "ranks differ\n$");
}

TEST(FromEnv, ReportsAConfigThatIsWrong) {
  const NoLauncher no_launcher;
  const Variable hook("HOOKLINE_DDP__COMM_HOOK", "power_sdg");
  EXPECT_THAT(failure_of<ConfigError>([] { Accelerator::from_env(); }), HasSubstr("power_sgd"));
}

}  // namespace
}  // namespace hookline
