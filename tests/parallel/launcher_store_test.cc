// The launchers' store, held to what c10d's TCPStore does.
#include "parallel/world/launcher_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "launcher/rendezvous/attacks.h"
#include "libexec/rendezvous/joining_relay.h"
#include "libexec/rendezvous/serving_relay.h"
#include "libexec/rendezvous/store/rank_connections.h"
#include "libexec/rendezvous/store/store_hub.h"
#include "support/free_port.h"

namespace hookline {
namespace {

using Bytes = std::vector<std::uint8_t>;
using c10d::Store;
using StorePtr = c10::intrusive_ptr<Store>;
using std::chrono::milliseconds;

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

/// The end of a node_relay that serves the ranks of its host; each answer comes `delay` late.
class Server {
 public:
  explicit Server(milliseconds delay = milliseconds(0))
      : delay_(delay),
        name_(ranks_.listen_here()),
        port_(ranks_.listen_at({"127.0.0.1"}, [](auto&) { return false; })) {
    hub_.begin_round(1);
    thread_ = std::thread([this] {
      while (!is_over_) serve();
    });
  }
  ~Server() {
    is_over_ = true;
    thread_.join();
  }

  const std::string& name() const { return name_; }
  int port() const { return port_; }

 private:
  void serve() {
    pollfd ready{ranks_.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 10);
    for (const auto& event : ranks_.events()) {
      const StorePeer peer{"", event.connection};
      if (event.kind == RankConnections::Event::Kind::opened) hub_.open(peer, 1);
      if (event.kind == RankConnections::Event::Kind::ended) hub_.end(peer);
      if (event.kind != RankConnections::Event::Kind::data) continue;
      for (const auto& [to, bytes, is_last] : hub_.take(peer, event.bytes)) {
        std::this_thread::sleep_for(delay_);
        ranks_.send(to.connection, bytes);
        if (is_last) ranks_.end(to.connection);
      }
    }
  }

  milliseconds delay_;
  RankConnections ranks_;
  StoreHub hub_;
  std::string name_;
  int port_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

StorePtr tcp_store(int port, bool is_server) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = is_server;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

/// The same requests to c10d's store, to ours by its client, and to ours by our own.
class LikeATcpStore : public ::testing::TestWithParam<std::string> {
 protected:
  StorePtr open() {
    if (GetParam() == "c10d") return tcp_store(0, true);
    if (!server_) server_ = std::make_unique<Server>();
    if (GetParam() == "c10dsClient") return tcp_store(server_->port(), false);
    return c10::make_intrusive<LauncherStore>(server_->name());
  }

 private:
  std::unique_ptr<Server> server_;
};

TEST_P(LikeATcpStore, StoresAndCounts) {
  const StorePtr store = open();
  store->set("key", bytes("value"));
  EXPECT_EQ(text(store->get("key")), "value");
  store->set("key", Bytes{});
  EXPECT_EQ(text(store->get("key")), "");
  EXPECT_EQ(store->add("count", 5), 5);
  EXPECT_EQ(store->add("count", -2), 3);
  EXPECT_EQ(text(store->get("count")), "3");
  const std::int64_t keys = store->getNumKeys();
  store->append("long", bytes("a"));
  store->append("long", bytes("b"));
  EXPECT_EQ(text(store->get("long")), "ab");
  EXPECT_EQ(store->getNumKeys(), keys + 1);
  EXPECT_TRUE(store->deleteKey("long"));
  EXPECT_FALSE(store->deleteKey("long"));
  EXPECT_TRUE(store->check({"key", "count"}));
  EXPECT_FALSE(store->check({"key", "long"}));
}

TEST_P(LikeATcpStore, ComparesAndSets) {
  const StorePtr store = open();
  EXPECT_EQ(text(store->compareSet("key", bytes("other"), bytes("new"))), "other");
  EXPECT_FALSE(store->check({"key"}));
  EXPECT_EQ(text(store->compareSet("key", bytes(""), bytes("first"))), "first");
  EXPECT_EQ(text(store->compareSet("key", bytes("other"), bytes("new"))), "first");
  EXPECT_EQ(text(store->compareSet("key", bytes("first"), bytes("new"))), "new");
  EXPECT_EQ(text(store->get("key")), "new");
}

TEST_P(LikeATcpStore, TakesManyKeysAtOnce) {
  const StorePtr store = open();
  ASSERT_TRUE(store->hasExtendedApi());
  std::vector<std::string> keys;
  std::vector<Bytes> values;
  for (int i = 0; i < 1000; ++i) {
    keys.push_back("key " + std::to_string(i));
    values.push_back(bytes(std::string(static_cast<std::size_t>(i), 'x')));
  }
  store->multiSet(keys, values);
  EXPECT_EQ(store->multiGet(keys), values);
  const Bytes large(5 << 20, 7);
  store->set("large", large);
  EXPECT_EQ(store->get("large"), large);
}

TEST_P(LikeATcpStore, WaitsForOtherClients) {
  const StorePtr store = open(), other = store->clone();
  auto waiting = std::async(std::launch::async, [&] { return text(other->get("late")); });
  EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
  store->set("late", bytes("here"));
  EXPECT_EQ(waiting.get(), "here");
}

/// Torch 2.15 and later have it.
template <class Store>
concept HasBarrier = requires(Store& store) {
  store.barrier("key", 2, milliseconds(1));
};

template <class Store>
void meet_at_barrier(Store& store, int clients) {
  if constexpr (HasBarrier<Store>) store.barrier("barrier", clients, std::chrono::seconds(30));
}

TEST_P(LikeATcpStore, HoldsABarrierUntilAllAreThere) {
  if (!HasBarrier<c10d::Store>) GTEST_SKIP() << "this torch's stores have no barrier";
  const StorePtr store = open(), other = store->clone();
  auto waiting = std::async(std::launch::async, [&] { meet_at_barrier(*other, 2); });
  EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
  meet_at_barrier(*store, 2);
  waiting.get();
}

TEST_P(LikeATcpStore, GivesUpAfterTheTimeoutAndGoesOn) {
  const StorePtr store = open();
  EXPECT_THROW(store->wait({"never"}, milliseconds(50)), c10::DistStoreError);
  store->setTimeout(milliseconds(50));
  EXPECT_THROW(store->get("never"), c10::DistStoreError);
  store->set("key", bytes("value"));
  EXPECT_EQ(text(store->get("key")), "value");
}

INSTANTIATE_TEST_SUITE_P(Of, LikeATcpStore, ::testing::Values("c10d", "c10dsClient", "Launcher"),
                         [](const auto& kind) { return kind.param; });

TEST(LauncherStore, ServesC10dsQueues) {
  Server server;
  const StorePtr store = tcp_store(server.port(), false), other = store->clone();
  EXPECT_EQ(store->queueLen("q"), 0);
  auto waiting = std::async(std::launch::async, [&] { return text(other->queuePop("q", true)); });
  store->queuePush("q", bytes("first"));
  EXPECT_EQ(waiting.get(), "first");
  store->queuePush("q", bytes("second"));
  EXPECT_EQ(store->queueLen("q"), 1);
  EXPECT_EQ(text(store->queuePop("q", false)), "second");
  EXPECT_THROW(store->queuePop("q", false), c10::DistQueueEmptyError);
  store->set("key", bytes("value"));
  EXPECT_THAT(store->listKeys(), ::testing::ElementsAre("key"));
}

TEST(LauncherStore, TakesNoLateAnswerForThatOfAnotherRequest) {
  Server server(milliseconds(200));
  LauncherStore store(server.name());
  store.set("key", bytes("value"));
  EXPECT_EQ(text(store.get("key")), "value");
  EXPECT_THROW(store.wait({"never"}, milliseconds(50)), c10::DistStoreError) << "however late the answer is";
  EXPECT_TRUE(store.check({"key"}));
  store.setTimeout(milliseconds(50));
  EXPECT_THROW(store.check({"key"}), c10::DistStoreError);
  EXPECT_THROW(store.check({"key"}), c10::DistNetworkError);
}

/// A relay in a thread, and the launcher's end of its socket.
class Relay {
 public:
  template <class MakeRelay>
  explicit Relay(const MakeRelay& make) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    own_ = FileDescriptor(ends[0]);
    theirs_ = FileDescriptor(ends[1]);
    launcher_ = std::make_unique<LauncherSocket>(ends[1]);
    thread_ = std::thread([this, make] { make(context_, *launcher_)->run(); });
  }
  ~Relay() {
    own_.reset();
    thread_.join();
  }

  /// Opens the store of round 1, and returns the name of its socket.
  std::string open_store() {
    const std::string order = "store 1 here\n";
    EXPECT_EQ(::send(own_.get(), order.data(), order.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(order.size()));
    std::string heard;
    for (char byte = 0; ::recv(own_.get(), &byte, 1, 0) == 1;) {
      if (byte != '\n') {
        heard += byte;
      } else if (heard.starts_with("store 1 ")) {
        return heard.substr(8, heard.find(' ', 8) - 8);
      } else {
        heard.clear();
      }
    }
    ADD_FAILURE() << "the relay has ended";
    return "";
  }

 private:
  zmq::context_t context_;
  FileDescriptor own_, theirs_;
  std::unique_ptr<LauncherSocket> launcher_;
  std::thread thread_;
};

TEST(LauncherStore, IsTheSameOnAllNodes) {
  const RunKeys keys = keys_of("a secret of this test", "this place");
  RelayPlace place;
  place.address = "127.0.0.1";
  place.port = testing::free_port();
  place.join_timeout = place.node_timeout = std::chrono::seconds(30);
  RelayPlace of_a = place, of_b = place;
  of_a.node = "a";
  of_b.node = "b";
  Relay serving([&](auto& context, auto& launcher) {
    return std::make_unique<ServingRelay>(of_a, keys, context, launcher);
  });
  const StorePtr here = c10::make_intrusive<LauncherStore>(serving.open_store());
  Relay joining([&](auto& context, auto& launcher) {
    return std::make_unique<JoiningRelay>(of_b, keys, context, launcher, /*taken_here=*/false);
  });
  const StorePtr there = c10::make_intrusive<LauncherStore>(joining.open_store());
  auto waiting = std::async(std::launch::async, [&] { return text(there->get("late")); });
  here->set("late", bytes("here"));
  EXPECT_EQ(waiting.get(), "here");
  // Larger than any frame between two nodes.
  const std::vector<Bytes> values(3, Bytes(7 << 20, 5));
  const std::vector<std::string> keys_of_values = {"x", "y", "z"};
  for (const std::string& key : keys_of_values) there->set(key, values[0]);
  EXPECT_EQ(there->multiGet(keys_of_values), values);
  EXPECT_EQ(here->multiGet(keys_of_values), values);
}

TEST(LauncherStore, IsNotReachedByATcpStoreAtTheMeetingPlace) {
  EXPECT_EQ(expect_to_have_the_tests_of_attacks({"LauncherStore"}).size(), 1U);
  const RunKeys keys = keys_of("a secret of this test", "this place");
  RelayPlace place;
  place.address = "127.0.0.1";
  place.port = testing::free_port();
  place.join_timeout = place.node_timeout = std::chrono::seconds(30);
  place.node = "a";
  Relay serving([&](auto& context, auto& launcher) {
    return std::make_unique<ServingRelay>(place, keys, context, launcher);
  });
  const StorePtr own = c10::make_intrusive<LauncherStore>(serving.open_store());
  own->set("key", bytes("value"));
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = milliseconds(2000);
  EXPECT_ANY_THROW({
    c10d::TCPStore stranger("127.0.0.1", options);
    stranger.get("key");
  });
  EXPECT_EQ(text(own->get("key")), "value");
}

TEST(LauncherStore, FailsOnceTheLauncherIsGone) {
  auto server = std::make_unique<Server>();
  LauncherStore store(server->name());
  store.set("key", bytes("value"));
  auto waiting = std::async(std::launch::async, [&] {
    try {
      store.get("never");
    } catch (const c10::DistNetworkError& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  });
  EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
  const std::string name = server->name();
  server.reset();
  EXPECT_EQ(waiting.get(), "the launcher, by which ranks reach their store, is gone");
  EXPECT_THROW(LauncherStore{name}, c10::DistNetworkError);
}

}  // namespace
}  // namespace hookline
