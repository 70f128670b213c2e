// Kills processes of a real training job at random: nothing is left behind, and the report names the killed
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "support/process.h"

namespace hookline {
namespace {

using testing::children_of;
using testing::eventually;
using testing::is_running;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

TEST(RandomKills, OfATrainingJobLeaveNothingBehindAndNameTheKilledRank) {
  constexpr int kKills = 15, kRanks = 2;
  constexpr std::size_t kOfLauncher = 3;
  const char* given = std::getenv("HOOKLINE_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::mt19937 random(seed);
  for (int i = 0; i < kKills; ++i) {
    const TemporaryFolder folder;
    ProcessOptions options;
    options.folder = folder.path();
    options.environment = {{"OMP_NUM_THREADS", "1"}, {"CUDA_VISIBLE_DEVICES", ""}};
    options.arguments = {"launch",
                         "--config",
                         std::string(DIGITS_FOLDER) + "/power_sgd.toml",
                         "--processes-per-node",
                         std::to_string(kRanks),
                         DIGITS_PROGRAM,
                         "--epochs",
                         "100000"};
    Process launcher(HOOKLINE_BINARY, options);
    // About the first of these three seconds is start-up. Each kind of process gets its turn as the victim.
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 3000));
    std::vector<pid_t> all;  // the launcher, its sentinel, its agent and the ranks
    ASSERT_TRUE(eventually([&] {
      all = {launcher.pid()};
      for (std::size_t next = 0; next < all.size(); ++next)
        for (const pid_t child : children_of(all[next])) all.push_back(child);
      return all.size() == kOfLauncher + kRanks;
    }));
    const auto victim = static_cast<std::size_t>(i) % all.size();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", kill " + std::to_string(i) + " of process " +
                 std::to_string(victim));
    kill(all[victim], SIGKILL);
    const ProcessResult result = launcher.wait();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.err;
    if (victim >= kOfLauncher) {
      EXPECT_THAT(result.err,
                  ::testing::HasSubstr("hookline: error: rank " + std::to_string(victim - kOfLauncher) +
                                       " was killed by SIGKILL (signal 9)"));
    }
    EXPECT_TRUE(eventually([&] { return std::none_of(all.begin(), all.end(), is_running); }));
  }
}

}  // namespace
}  // namespace hookline
