// Kills a run repeatedly while it saves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "resuming_launch.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using testing::children_of;
using testing::eventually;
using ::testing::HasSubstr;
using testing::kRanks;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;
using testing::with;

std::vector<pid_t> ranks_of(const Process& launcher) {
  const pid_t agent = testing::agent_of(launcher.pid());
  return agent == 0 ? std::vector<pid_t>() : children_of(agent);
}

/// When the unfinished (.part) checkpoint last changed; nullopt if there is none.
std::optional<std::filesystem::file_time_type> time_of_part(const std::filesystem::path& checkpoints) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints, error)) {
    if (entry.path().extension() != ".part") continue;
    const auto time = std::filesystem::last_write_time(entry.path(), error);
    if (!error) return time;
  }
  return std::nullopt;
}

TEST(RandomKills, DuringASaveLoseNothing) {
  constexpr int kKills = 25;
  const char* given = std::getenv("HOOKLINE_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> program = {RESUMING_RANK_PROGRAM, "20000"};
  const auto sets = with(testing::kPowerSgd, {"training.max_steps=1500"});
  const TemporaryFolder folder;
  ProcessOptions options = testing::launch_in(
      folder.path(),
      with(sets, {"training.checkpoint_every_steps=1", "launch.max_restarts=1000", "launch.restart=always"}),
      program);
  options.limit = std::chrono::minutes(20);
  Process launcher(HOOKLINE_BINARY, options);
  std::optional<std::filesystem::file_time_type> left_behind;
  for (int during_a_save = 0; during_a_save < kKills;) {
    std::vector<pid_t> ranks;
    const auto is_saving = [&] {
      launcher.read();
      const auto part = time_of_part(folder.path() / "checkpoints");
      if (!part || part == left_behind) return false;
      ranks = ranks_of(launcher);
      return ranks.size() == kRanks;
    };
    // A save takes about 10 ms.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool saving = false;
    while (!(saving = is_saving()) && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    ASSERT_TRUE(saving) << "after " << during_a_save << " kills\n" << launcher.err();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 6000));
    kill(ranks[random() % kRanks], SIGKILL);
    ASSERT_TRUE(eventually([&] {
      const auto now = ranks_of(launcher);
      return std::none_of(ranks.begin(), ranks.end(),
                          [&](pid_t rank) { return std::find(now.begin(), now.end(), rank) != now.end(); });
    }));
    left_behind = time_of_part(folder.path() / "checkpoints");
    if (left_behind) ++during_a_save;
  }
  const ProcessResult result = launcher.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("restart " + std::to_string(kKills) + " of 1000"),
                                Not(HasSubstr("passed over")), Not(HasSubstr("not restored")),
                                Not(HasSubstr("was not saved"))));
  EXPECT_EQ(testing::ends_of(result), testing::ends_without_a_stop(sets, program));
}

}  // namespace
}  // namespace hookline
