// How the event thread of a Gloo group is scheduled.
#include "parallel/groups/gloo_options.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace hookline {
namespace {

/// The scheduling policies of all threads of this process.
std::vector<int> policies() {
  std::vector<int> all;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
    all.push_back(::sched_getscheduler(std::stoi(thread.path().filename())));
  return all;
}

auto batch_threads() {
  const std::vector<int> all = policies();
  return std::count(all.begin(), all.end(), SCHED_BATCH);
}

TEST(GlooOptions, MakeAnEventThreadThatTakesNoCoreFromOthers) {
  ASSERT_EQ(batch_threads(), 0);
  const auto options = gloo_options("127.0.0.1", std::chrono::seconds(5));
  EXPECT_EQ(options->timeout, std::chrono::seconds(5));
  EXPECT_EQ(options->devices.size(), 1u);
  EXPECT_EQ(batch_threads(), 1);
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "this thread is as it was";
}

TEST(GlooOptions, KeepThePolicyOfAProcessThatHasAnother) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_IDLE, &none), 0);
    const auto options = gloo_options("127.0.0.1", std::chrono::seconds(5));
    EXPECT_EQ(batch_threads(), 0);
    const std::vector<int> all = policies();
    EXPECT_EQ(std::count(all.begin(), all.end(), SCHED_IDLE), 2) << "this thread and the event thread";
  }).join();
}

TEST(GlooOptions, AreRefusedForAnAddressThatIsNotHere) {
  EXPECT_ANY_THROW(gloo_options("203.0.113.1", std::chrono::seconds(5)));
}

}  // namespace
}  // namespace hookline
