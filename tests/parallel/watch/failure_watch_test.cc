// The number of store reads that watching many ranks takes, and that every death is still detected. Ranks are
// threads.
#include "parallel/watch/failure_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "base/error.h"
#include "hooks/future.h"
#include "parallel/watch/long_waits.h"
#include "tests/support/logged_messages.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Counts the keys that are read.
class CountingStore : public c10d::HashStore {
 public:
  std::vector<std::uint8_t> get(const std::string& key) override {
    ++keys_read;
    return HashStore::get(key);
  }
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    keys_read += static_cast<std::int64_t>(keys.size());
    return HashStore::multiGet(keys);
  }
  std::atomic<std::int64_t> keys_read = 0;
};

/// A rank's own connection to the store; once it is cut, the rank no longer writes.
class Connection : public c10d::Store {
 public:
  explicit Connection(c10::intrusive_ptr<CountingStore> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    if (!is_cut) store_->set(key, value);
  }
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    return store_->compareSet(key, expected, desired);
  }
  std::vector<std::uint8_t> get(const std::string& key) override { return store_->get(key); }
  std::int64_t add(const std::string& key, std::int64_t value) override { return store_->add(key, value); }
  bool deleteKey(const std::string& key) override { return store_->deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  std::int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override { store_->wait(keys); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }
  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<Connection>(store_); }
  bool hasExtendedApi() const override { return true; }
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    return store_->multiGet(keys);
  }
  std::atomic<bool> is_cut = false;

 private:
  c10::intrusive_ptr<CountingStore> store_;
};

struct Ranks {
  Ranks(int size, milliseconds peer_timeout, milliseconds long_wait = std::chrono::seconds(30)) {
    for (int rank = 0; rank < size; ++rank) {
      connections.push_back(c10::make_intrusive<Connection>(store));
      watches.push_back(
          std::make_unique<FailureWatch>(connections.back(), rank, size, peer_timeout, long_wait));
    }
  }
  FuturePtr wait_on(std::size_t rank, const std::string& what = "an all-reduce") {
    inner.push_back(c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get()));
    return watches[rank]->watched(inner.back(), what);
  }
  c10::intrusive_ptr<CountingStore> store = c10::make_intrusive<CountingStore>();
  std::vector<c10::intrusive_ptr<Connection>> connections;
  std::vector<std::unique_ptr<FailureWatch>> watches;
  std::vector<FuturePtr> inner;
};

std::string failure_of(const FuturePtr& future, milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!future->completed() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(milliseconds(10));
  return future->hasError() ? future->tryRetrieveErrorMessage() : "";
}

TEST(FailureWatch, ReadsTheStoreInProportionToTheRanks) {
  constexpr int kSize = 256;
  Ranks ranks(kSize, std::chrono::minutes(10));
  for (std::size_t rank = 0; rank < kSize; ++rank) ranks.wait_on(rank);
  std::this_thread::sleep_for(milliseconds(1500));  // a rank only checks the others after this long
  const std::int64_t before = ranks.store->keys_read;
  std::this_thread::sleep_for(milliseconds(2500));
  const std::int64_t read = ranks.store->keys_read - before;
  EXPECT_GT(read, kSize) << "rank 0 reads all heartbeats; the other ranks read what rank 0 has found";
  // Two reads per rank every half second, not 255. Load on the machine only lowers the number.
  EXPECT_LT(read, 20 * kSize);
  for (const FuturePtr& inner : ranks.inner) inner->markCompleted();
}

TEST(FailureWatch, FindsTheDeathOfAnyRank) {
  for (const std::size_t dead : {0u, 1u, 3u}) {
    Ranks ranks(4, milliseconds(2000));
    const FuturePtr waiting = ranks.wait_on(2);
    std::this_thread::sleep_for(milliseconds(1200));
    EXPECT_FALSE(waiting->completed());
    ranks.connections[dead]->is_cut = true;
    const std::string failure = failure_of(waiting, std::chrono::seconds(30));
    EXPECT_THAT(failure, StartsWith("rank " + std::to_string(dead) + " has sent no heartbeat for "));
    EXPECT_THAT(failure, HasSubstr("; rank 2 is waiting for it in an all-reduce"));
    ranks.connections[dead]->is_cut = false;
  }
}

TEST(FailureWatch, DetectsThatARankHasLeft) {
  for (const std::size_t gone : {0u, 3u}) {
    Ranks ranks(4, std::chrono::minutes(10));
    const FuturePtr waiting = ranks.wait_on(2);
    std::this_thread::sleep_for(milliseconds(700));
    ranks.watches[gone].reset();
    EXPECT_EQ(
        failure_of(waiting, std::chrono::seconds(30)),
        "rank " + std::to_string(gone) + " left the run while rank 2 was waiting for it in an all-reduce");
  }
}

// Rank 0, which detects the long wait, is itself one of the ranks that the others wait for.
TEST(FailureWatch, WarnsOnceOfALongWaitAndNamesTheRankThatIsElsewhere) {
  const testing::Messages messages;
  Ranks ranks(4, std::chrono::minutes(10), std::chrono::seconds(2));
  for (const std::size_t rank : {1u, 3u}) ranks.wait_on(rank, "step 3 without a hook");
  std::this_thread::sleep_for(std::chrono::seconds(5));
  for (const FuturePtr& inner : ranks.inner) inner->markCompleted();
  EXPECT_EQ(
      messages.text(),
      "hookline: warning: ranks 1 and 3 have waited 2 s in step 3 without a hook; ranks 0 and 2 are in no "
      "collective. Every rank has to make the same calls; [launch] stall_timeout_seconds ends a run that is "
      "stuck\n");
}

TEST(FailureWatch, ReadsNoMoreOfTheStoreForALongWait) {
  constexpr int kSize = 64;
  const testing::Messages messages;
  Ranks ranks(kSize, std::chrono::minutes(10), std::chrono::seconds(2));
  for (std::size_t rank = 1; rank < kSize; ++rank) ranks.wait_on(rank);
  std::this_thread::sleep_for(milliseconds(1500));
  const std::int64_t before = ranks.store->keys_read;
  std::this_thread::sleep_for(milliseconds(2500));
  EXPECT_LT(ranks.store->keys_read - before, 20 * kSize);
  EXPECT_THAT(messages.text(), HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more have waited 2 s in an "
                                         "all-reduce; rank 0 is in no collective. "));
  for (const FuturePtr& inner : ranks.inner) inner->markCompleted();
}

TEST(LongWaits, AreLoggedAgainOnlyIfTheyDiffer) {
  using Time = LongWaits::Time;
  using std::chrono::seconds;
  LongWaits waits(seconds(30), milliseconds(500));
  const auto at = [](std::optional<std::uint64_t> number, const std::string& what = "a sum") {
    RankPosition position;
    if (number) position.pending = RankPosition::Pending{*number, what};
    return position;
  };
  const Time start{};
  EXPECT_FALSE(waits.look({at(7), at(std::nullopt)}, start));
  EXPECT_FALSE(waits.look({at(7), at(std::nullopt)}, start + seconds(29)));
  EXPECT_THAT(
      waits.look({at(7), at(std::nullopt)}, start + seconds(30)),
      ::testing::Optional(StartsWith("rank 0 has waited 30 s in a sum; rank 1 is in no collective. ")));
  EXPECT_FALSE(waits.look({at(7), at(std::nullopt)}, start + seconds(90))) << "the same";
  EXPECT_FALSE(waits.look({at(8), at(2)}, start + seconds(91))) << "another collective";
  EXPECT_FALSE(waits.look({at(8), at(3, "a gather")}, start + seconds(120)));
  EXPECT_THAT(waits.look({at(8), at(3, "a gather")}, start + seconds(121)),
              ::testing::Optional(StartsWith("rank 0 has waited 30 s in a sum; rank 1 waits in a gather. ")));
  waits.begin_anew();
  EXPECT_FALSE(waits.look({at(8), at(3)}, start + seconds(200))) << "the process was stopped";
}

}  // namespace
}  // namespace hookline
