// How ranks meet at their run's store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "base/error.h"
#include "parallel/world/run_store.h"

namespace hookline {
namespace {

using ::testing::StartsWith;

/// Counts the queries it receives.
class AskedStore : public c10d::HashStore {
 public:
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    ++asked;
    HashStore::set(key, value);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    ++asked;
    return HashStore::add(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    asked += static_cast<std::int64_t>(keys.size());
    return HashStore::check(keys);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    ++asked;
    HashStore::wait(keys, timeout);
  }
  std::atomic<std::int64_t> asked = 0;
};

TEST(RunStore, IsQueriedInProportionToTheJoiningRanks) {
  constexpr int kSize = 256;
  const auto store = c10::make_intrusive<AskedStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank)
    ranks.emplace_back([&, rank] { wait_until_all_joined(*store, rank, kSize, std::chrono::minutes(5)); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_LE(store->asked, 4 * kSize);
}

TEST(RunStore, NamesTheRanksThatDoNotJoin) {
  const auto store = c10::make_intrusive<AskedStore>();
  std::thread other(
      [&] { EXPECT_THROW(wait_until_all_joined(*store, 2, 4, std::chrono::milliseconds(300)), Error); });
  try {
    wait_until_all_joined(*store, 0, 4, std::chrono::milliseconds(300));
    ADD_FAILURE() << "it waited for nobody";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("ranks 1 and 3 did not join the run in the 0.3"));
  }
  other.join();
}

}  // namespace
}  // namespace hookline
