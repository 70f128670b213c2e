// Attacks on the place where the nodes of a run meet, by strangers and by those who hold its token: a run
// forms and ends as if nobody had tried.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/file_descriptor.h"
#include "launcher/process/file_limit.h"
#include "launcher/rendezvous/attacks.h"
#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/node_runs.h"
#include "libexec/rendezvous/lines/line_stream.h"
#include "libexec/rendezvous/run_keys.h"
#include "libexec/rendezvous/wire.h"
#include "support/free_port.h"
#include "support/hosts.h"
#include "support/process.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

const std::string kToken = "0123456789abcdef0123456789abcdef-of-the-run";

sockaddr_in loopback_at(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

/// A run of two nodes on this machine: launch(0) starts the first, which waits for the second, launch(1).
class Strangers : public ::testing::Test {
 protected:
  Strangers() {
    // Ranks wait for a file "exit", so that attacks reach a run that trains.
    folder_.write("train", "#!/bin/sh\ntouch here$RANK\nwhile ! [ -e exit ]; do sleep 0.02; done\n", true);
  }

  ProcessOptions options_of(int node, const std::string& token = kToken,
                            const std::vector<std::string>& sets = {}) {
    ProcessOptions options;
    options.folder = folder_.path();
    options.environment = {{"HOOKLINE_TOKEN", token},
                           {"OMP_NUM_THREADS", "1"},
                           {"XDG_CONFIG_HOME", (folder_.path() / "own").string()}};
    if (token.empty()) options.environment["HOOKLINE_TOKEN"] = std::nullopt;
    options.arguments = {"launch", "--processes-per-node", "1"};
    for (const std::string& set :
         {std::string("launch.nnodes=2"), "launch.node_rank=" + std::to_string(node),
          std::string("rendezvous.main_address=127.0.0.1"), "rendezvous.main_port=" + std::to_string(port_)})
      options.arguments.insert(options.arguments.end(), {"--set", set});
    for (const std::string& set : sets) options.arguments.insert(options.arguments.end(), {"--set", set});
    options.arguments.emplace_back("./train");
    return options;
  }

  std::unique_ptr<Process> launch(int node, const std::string& token = kToken,
                                  const std::vector<std::string>& sets = {}) {
    return std::make_unique<Process>(HOOKLINE_BINARY, options_of(node, token, sets));
  }

  /// A connection to where the nodes meet; -1 if it was not taken.
  FileDescriptor connect_here() const {
    FileDescriptor descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback_at(port_);
    if (::connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      descriptor.reset();
    return descriptor;
  }

  static void send(const FileDescriptor& to, const std::string& bytes) {
    [[maybe_unused]] const ssize_t count = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  /// Starts the first node, attacks it while it waits, has the second one join, attacks again while the ranks
  /// run, and expects the run to end well. Returns what the first node logged.
  std::string expect_withstands(const std::function<void()>& attack) {
    const auto first = launch(0);
    EXPECT_TRUE(first->wait_for("waiting for other nodes"));
    attack();
    const auto second = launch(1);
    const bool runs = eventually([&] { return has("here0") && has("here1"); });
    EXPECT_TRUE(runs) << first->err() << second->err();
    if (runs) attack();
    return expect_a_good_end(*first, *second);
  }

  /// Lets the ranks of a run of these two nodes end, and expects both nodes to end well. Returns what the
  /// first one logged.
  std::string expect_a_good_end(Process& first, Process& second) {
    folder_.write("exit", "");
    const ProcessResult one = first.wait(), two = second.wait();
    EXPECT_EQ(one.exit_code, 0) << one.err;
    EXPECT_EQ(two.exit_code, 0) << two.err;
    return one.err;
  }

  bool has(const std::string& name) const { return std::filesystem::exists(folder_.path() / name); }
  RunKeys keys(const std::string& secret) const {
    return keys_of(secret, "127.0.0.1:" + std::to_string(port_));
  }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

  TemporaryFolder folder_;
  int port_ = testing::free_port();
};

constexpr const char* kRefused =
    "was refused: a node needs the same main_address and main_port, and the "
    "token that is here in $HOOKLINE_TOKEN\n";

constexpr const char* kNoHosts = "network namespaces can't be made here (run as root)";

TEST_F(Strangers, WithGarbageChangeNothing) {
  std::mt19937 random(5);
  std::string noise(200'000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string greeting(
      "\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"
      "CURVE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      33);
  const std::vector<std::string> texts = {
      "GET / HTTP/1.1\r\n\r\n",
      noise,
      greeting,
      greeting + std::string(31, '\0') + noise,                             // a greeting, then noise
      greeting + std::string(31, '\0') + "\x06" + std::string(8, '\x7f'),   // a frame of almost 2^63 bytes
      std::string("\xce\xf7\x85\x3c\0\0\0\0", 8) + noise,                   // a client of c10d's TCPStore
      std::string("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 11) + noise,  // TLS
      std::string(1, '\xff'),
      R"({"is":"end_run","exit_code":3,"why":"because"})"
      "\n",
  };
  int answered = 0;
  expect_withstands([&] {
    for (const std::string& text : texts) {
      const FileDescriptor stranger = connect_here();
      ASSERT_GE(stranger.get(), 0);
      send(stranger, text);
      char answer[1024];
      ssize_t told = 0, count = 0;
      pollfd readable = {stranger.get(), POLLIN, 0};
      while (::poll(&readable, 1, 200) > 0 && (count = ::recv(stranger.get(), answer, sizeof answer, 0)) > 0)
        told += count;
      EXPECT_LE(told, 64) << "a stranger receives nothing but libzmq's greeting";
      answered += told > 0 ? 1 : 0;
    }
  });
  EXPECT_GT(answered, 0) << "libzmq greets those who begin as its clients do";
}

/// Tries to join with these keys, and waits a second for an answer; true if anything comes back.
bool gets_an_answer(zmq::context_t& context, const RunKeys& keys, const std::string& endpoint) {
  zmq::socket_t socket = joining_socket(context, keys, "stranger");
  socket.connect(endpoint);
  LineStream lines;
  const auto hello = std::make_shared<const std::string>(to_line(Up{"", NodeHello{"evil", 1, 1, {}}}));
  socket.send(zmq::buffer(lines.send(hello)), zmq::send_flags::dontwait);
  socket.send(zmq::buffer(lines.count(LineStream::Kind::heartbeat)), zmq::send_flags::dontwait);
  zmq::pollitem_t item = {socket.handle(), 0, ZMQ_POLLIN, 0};
  return zmq::poll(&item, 1, milliseconds(1000)) > 0;
}

TEST_F(Strangers, WithAnotherTokenAreRefused) {
  zmq::context_t context;
  const std::string log = expect_withstands([&] {
    EXPECT_FALSE(gets_an_answer(context, keys("token " + kToken + "!"), endpoint()));
    EXPECT_FALSE(gets_an_answer(context, keys("none"), endpoint()));
  });
  EXPECT_THAT(log, HasSubstr(kRefused));
}

// Each side must prove that it holds the secret.
TEST_F(Strangers, WhoKnowOnlyThePublicKeyAreRefused) {
  zmq::context_t context;
  RunKeys half = keys("token " + kToken);
  half.joining = keys("another").joining;
  const std::string log = expect_withstands([&] { EXPECT_FALSE(gets_an_answer(context, half, endpoint())); });
  EXPECT_THAT(log, HasSubstr(kRefused));
}

TEST_F(Strangers, WithoutEncryptionGetNoAnswer) {
  zmq::context_t context;
  expect_withstands([&] {
    zmq::socket_t plain(context, zmq::socket_type::dealer);
    plain.set(zmq::sockopt::linger, 0);
    plain.connect(endpoint());
    plain.send(zmq::str_buffer("L1\n{\"is\":\"leave\"}"), zmq::send_flags::dontwait);
    zmq::pollitem_t item = {plain.handle(), 0, ZMQ_POLLIN, 0};
    EXPECT_EQ(zmq::poll(&item, 1, milliseconds(1000)), 0);
  });
}

/// Stands between a node and the place where it joins: listens on a host of its own, at the loopback address
/// and the port of the meeting place, passes on what the two send each other, and records it.
class Between {
 public:
  explicit Between(int port) : port_(port), to_port_(port) {
    if (!hosts_.ok()) return;
    const sockaddr_in here = loopback_at(port);
    std::thread([this, here] {  // so that only this thread enters the host; its socket stays there
      if (!hosts_.enter(0)) return;
      listening_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      is_there_ = ::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0 &&
                  ::listen(listening_.get(), 4) == 0;
    })
        .join();
    if (is_there_) thread_ = std::thread([this] { carry(); });
  }
  ~Between() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// False if there can't be another host here: then skip the test.
  bool is_there() const { return is_there_; }
  /// A node that meets the others through this.
  std::unique_ptr<Process> start(const ProcessOptions& options) const {
    return hosts_.start(0, HOOKLINE_BINARY, options);
  }
  int port() const { return port_; }
  /// From now on passes everything on to another port.
  void lead_to(int port) { to_port_ = port; }
  /// What the node has sent so far, and what it has received.
  std::string sent() const { return copy_of(sent_); }
  std::string received() const { return copy_of(received_); }
  /// Breaks the connection; the next one is carried again.
  void cut() { is_cut_ = true; }
  int connections() const { return connections_; }

 private:
  void carry() {
    while (!is_over_) {
      pollfd waiting = {listening_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 50) <= 0) continue;
      const FileDescriptor node(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const FileDescriptor place(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in there = loopback_at(to_port_);
      if (::connect(place.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) continue;
      ++connections_;
      while (!is_over_ && !is_cut_.exchange(false)) {
        pollfd both[] = {{node.get(), POLLIN, 0}, {place.get(), POLLIN, 0}};
        ::poll(both, 2, 50);
        if (both[0].revents != 0 && !pass(node, place, sent_)) break;
        if (both[1].revents != 0 && !pass(place, node, received_)) break;
      }
    }
  }
  std::string copy_of(const std::string& record) const {
    const std::lock_guard lock(mutex_);
    return record;
  }
  bool pass(const FileDescriptor& from, const FileDescriptor& to, std::string& record) {
    char block[65536];
    const ssize_t count = ::recv(from.get(), block, sizeof block, 0);
    if (count <= 0) return false;
    {
      const std::lock_guard lock(mutex_);
      record.append(block, static_cast<std::size_t>(count));
    }
    return ::send(to.get(), block, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
  }

  testing::Hosts hosts_{1};
  int port_;
  std::atomic<int> to_port_;
  FileDescriptor listening_;
  bool is_there_ = false;
  std::atomic<bool> is_over_{false}, is_cut_{false};
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;
  std::string sent_, received_;
  std::thread thread_;
};

TEST_F(Strangers, WhoReplayWhatTheyRecordedChangeNothing) {
  std::string recorded;
  {
    const auto first = launch(0);
    ASSERT_TRUE(first->wait_for("waiting for other nodes"));
    Between recorder(port_);
    if (!recorder.is_there()) GTEST_SKIP() << kNoHosts;
    const auto second = recorder.start(options_of(1));
    ASSERT_TRUE(eventually([&] { return has("here0") && has("here1"); })) << second->err();
    second->signal(SIGINT);  // the recorded node leaves the run, which ends it
    EXPECT_EQ(second->wait().exit_code, 130);
    EXPECT_EQ(first->wait().exit_code, 130);
    recorded = recorder.sent();
    EXPECT_THAT(recorder.sent() + recorder.received(), Not(AnyOf(HasSubstr("hello"), HasSubstr("train"))))
        << "everything is encrypted";
  }
  ASSERT_GT(recorded.size(), 500U);
  std::filesystem::remove(folder_.path() / "here0");
  std::filesystem::remove(folder_.path() / "here1");
  port_ = testing::free_port();
  expect_withstands([&] {
    const FileDescriptor stranger = connect_here();
    send(stranger, recorded);
    char answer[65536];
    pollfd readable = {stranger.get(), POLLIN, 0};
    while (::poll(&readable, 1, 500) > 0 && ::recv(stranger.get(), answer, sizeof answer, 0) > 0) {
    }
  });
}

TEST_F(Strangers, WhoReplayWithinTheRunChangeNothing) {
  // So long that the node does not connect anew by itself.
  const std::vector<std::string> patient = {"rendezvous.node_timeout_seconds=100"};
  const auto first = launch(0, kToken, patient);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  Between recorder(port_);
  if (!recorder.is_there()) GTEST_SKIP() << kNoHosts;
  const auto second = recorder.start(options_of(1, kToken, patient));
  ASSERT_TRUE(eventually([&] { return has("here0") && has("here1"); })) << second->err();
  for (int times = 0; times < 3; ++times) {
    const FileDescriptor stranger = connect_here();
    send(stranger, recorder.sent());
    char answer[65536];
    pollfd readable = {stranger.get(), POLLIN, 0};
    while (::poll(&readable, 1, 300) > 0 && ::recv(stranger.get(), answer, sizeof answer, 0) > 0) {
    }
  }
  EXPECT_EQ(recorder.connections(), 1) << "the node's own connection was not taken from it";
  expect_a_good_end(*first, *second);
}

TEST_F(Strangers, OfASecondRunAtTheAddressAreRefused) {
  const auto first = launch(0);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  const auto other_run = [&](int node) {
    ProcessOptions options = options_of(node);
    options.arguments.emplace_back("--other");
    return Process(HOOKLINE_BINARY, options).wait();
  };
  const ProcessResult other_first = other_run(0), other_second = other_run(1);
  EXPECT_EQ(other_first.exit_code, 2);
  EXPECT_THAT(other_first.err, HasSubstr("the port " + std::to_string(port_) + " is taken on this host"));
  EXPECT_EQ(other_second.exit_code, 2);
  EXPECT_THAT(other_second.err, AllOf(HasSubstr("it differs where all nodes must agree"),
                                      HasSubstr("arguments is (none) on "), HasSubstr("--other on ")));
  const auto second = launch(1);
  expect_a_good_end(*first, *second);
  EXPECT_THAT(first->err(), AllOf(HasSubstr(" was refused: "), HasSubstr("--other on ")));
}

TEST_F(Strangers, WhoCutConnectionsDoNotEndTheRun) {
  const auto first = launch(0);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  Between link(port_);
  if (!link.is_there()) GTEST_SKIP() << kNoHosts;
  const auto second = link.start(options_of(1));
  ASSERT_TRUE(eventually([&] { return has("here0") && has("here1"); })) << second->err();
  for (int times = 1; times <= 3; ++times) {
    const int before = link.connections();
    link.cut();
    ASSERT_TRUE(eventually([&] { return link.connections() > before; })) << second->err();
  }
  expect_a_good_end(*first, *second);
}

TEST_F(Strangers, WhoLeadANodeToAnotherRunOfItsTokenAreDropped) {
  const auto first = launch(0);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  Between link(testing::free_port());
  if (!link.is_there()) GTEST_SKIP() << kNoHosts;
  const int own_port = std::exchange(port_, link.port());
  ProcessOptions of_another_run = options_of(1, kToken, {"launch.join_timeout_seconds=2"});
  port_ = own_port;
  link.lead_to(port_);
  const ProcessResult led_astray = link.start(of_another_run)->wait();
  EXPECT_EQ(led_astray.exit_code, 1);
  EXPECT_THAT(led_astray.err, HasSubstr(" does not accept this node"));
  const auto second = launch(1);
  EXPECT_THAT(expect_a_good_end(*first, *second), HasSubstr(kRefused));
}

TEST_F(Strangers, WhoListenedThereBeforeDoNotKeepNodesOut) {
  std::unique_ptr<Process> second;
  {
    const FileDescriptor web(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(web.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const sockaddr_in here = loopback_at(port_);
    ASSERT_EQ(::bind(web.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    ASSERT_EQ(::listen(web.get(), 4), 0);
    second = launch(1);
    const FileDescriptor node(::accept4(web.get(), nullptr, nullptr, SOCK_CLOEXEC));
    send(node, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + std::string(100, ' '));
    ASSERT_TRUE(second->wait_for("does not accept this node, "));
  }
  const auto first = launch(0);
  expect_a_good_end(*first, *second);
}

TEST_F(Strangers, NodesLearnAtOnceThatTheCoordinatorWasKilled) {
  const std::vector<std::string> patient = {"rendezvous.node_timeout_seconds=100"};
  const auto first = launch(0, kToken, patient), second = launch(1, kToken, patient);
  ASSERT_TRUE(eventually([&] { return has("here0") && has("here1"); })) << second->err();
  first->signal(SIGKILL);
  const ProcessResult result = second->wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: error: the node at 127.0.0.1:" + std::to_string(port_) + " (" +
                        testing::host_name() +
                        "), which the others meet at, is gone (it has closed the connection, and takes "
                        "no other): the run can't continue without it\n"));
}

TEST_F(Strangers, ALauncherThatIsStartedAgainDoesNotLeaveTheLastRunsNodesWaiting) {
  const auto first = launch(0), second = launch(1);
  ASSERT_TRUE(eventually([&] { return has("here0") && has("here1"); })) << second->err();
  first->signal(SIGKILL);
  first->wait();
  const auto again = launch(0);
  const ProcessResult result = second->wait();
  EXPECT_EQ(result.exit_code, 1);
  // The node learns that its run is gone from the launcher that answers now or, if that one starts slowly,
  // from the closed connection.
  EXPECT_THAT(result.err, AnyOf(HasSubstr("is gone (another launcher has taken its place)"),
                                HasSubstr("is gone (it has closed the connection, ")));
  again->signal(SIGTERM);
  again->wait();
}

bool may_open(rlim_t files) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > files;
}

TEST_F(Strangers, WithTenThousandConnectionsDoNotKeepNodesOut) {
  int taken = 0;
  expect_withstands([&] {
    if (taken > 0) return;  // once is enough
    for (int i = 0; i < 10'000; ++i) taken += connect_here().get() >= 0;
  });
  EXPECT_GT(taken, 9'000);
}

TEST_F(Strangers, WithThousandsOfIdleConnectionsDoNotKeepNodesOut) {
  constexpr int kIdle = 3000;
  const RaisedFileLimit each_connection_takes_one;
  if (!may_open(2 * kIdle)) GTEST_SKIP() << "the system allows too few open files";
  std::vector<FileDescriptor> idle;
  expect_withstands([&] {
    if (!idle.empty()) return;
    for (int i = 0; i < kIdle; ++i) {
      idle.push_back(connect_here());
      ASSERT_GE(idle.back().get(), 0) << i;
    }
  });
}

TEST_F(Strangers, WhoSayNothingAreDisconnected) {
  expect_withstands([&] {
    const FileDescriptor stranger = connect_here();
    const auto begin = std::chrono::steady_clock::now();
    char answer[1024];
    pollfd readable = {stranger.get(), POLLIN, 0};
    while (::poll(&readable, 1, 30'000) > 0 && ::recv(stranger.get(), answer, sizeof answer, 0) > 0) {
    }
    const auto lasted = std::chrono::steady_clock::now() - begin;
    EXPECT_GT(lasted, milliseconds(2500)) << "they have three seconds to prove that they hold the token";
    EXPECT_LT(lasted, milliseconds(25'000));
  });
}

TEST_F(Strangers, WhoSendByteByByteDoNotKeepNodesOut) {
  std::atomic<bool> is_over{false};
  std::thread slow;
  expect_withstands([&] {
    if (slow.joinable()) return;
    slow = std::thread([&] {
      std::vector<FileDescriptor> all;
      for (int i = 0; i < 200; ++i) {
        all.push_back(connect_here());
        ASSERT_GE(all.back().get(), 0) << i;
      }
      const std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03", 11);
      for (std::size_t at = 0; !is_over; at = (at + 1) % greeting.size()) {
        for (const FileDescriptor& each : all) send(each, greeting.substr(at, 1));
        std::this_thread::sleep_for(milliseconds(50));
      }
    });
  });
  is_over = true;
  slow.join();
}

// One who holds the token can end the run, but not crash its coordinator.
TEST_F(Strangers, WhoHoldTheTokenAndSendNonsenseAreIgnored) {
  zmq::context_t context;
  const RunKeys of_run = keys("token " + kToken);
  std::mt19937 random(6);
  const std::string log = expect_withstands([&] {
    zmq::socket_t socket = joining_socket(context, of_run, "confused" + std::to_string(random()));
    socket.connect(endpoint());
    LineStream lines;
    const auto say = [&](const std::string& text) {
      socket.send(zmq::buffer(lines.send(std::make_shared<const std::string>(text))), zmq::send_flags::none);
    };
    say("no JSON");
    say(R"({"is":"hello"})");
    say(R"({"is":"end","round":1,"warned":false,"report":""})");
    say(R"({"is":"failed","round":1,"rank":0,"exited":3})");
    say(std::string(100'000, '['));
    say("");
    // A frame that is too long costs its sender the connection.
    zmq::socket_t endless = joining_socket(context, of_run, "endless");
    endless.connect(endpoint());
    endless.send(zmq::buffer("L1\n" + std::string(kLongestMessageBytes + 1000, 'x')), zmq::send_flags::none);
    for (const std::string frame : {"", "L", "L7\nlate", "B", "A1 1", "A7", "B18446744073709551615"})
      socket.send(zmq::buffer(frame), zmq::send_flags::none);
    socket.send(zmq::str_buffer("two"), zmq::send_flags::sndmore);
    socket.send(zmq::str_buffer("parts"), zmq::send_flags::none);
    zmq::pollitem_t item = {socket.handle(), 0, ZMQ_POLLIN, 0};
    zmq::poll(&item, 1, milliseconds(1000));
    say(R"({"is":"leave"})");
    std::this_thread::sleep_for(milliseconds(200));
  });
  EXPECT_THAT(log,
              HasSubstr(" is not from this version of hookline; ignoring this and all further such messages: "
                        "'no JSON'\n"));
}

TEST_F(Strangers, WhoHoldTheTokenAndNameAProgramRunNothing) {
  zmq::context_t context;
  const RunKeys of_run = keys("token " + kToken);
  const std::string owned = (folder_.path() / "owned").string(), pipe = (folder_.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  int tries = 0;
  const std::string log = expect_withstands([&] {
    zmq::socket_t socket = joining_socket(context, of_run, "commander" + std::to_string(++tries));
    socket.connect(endpoint());
    LineStream lines;
    const auto say = [&](const std::string& text) {
      socket.send(zmq::buffer(lines.send(std::make_shared<const std::string>(text))), zmq::send_flags::none);
    };
    NodeHello hello;
    hello.host = "$(touch " + owned + ")";
    for (const char* const key : {"program", "arguments", "config", "version", "run_id"})
      hello.common[key] = "/bin/sh -c 'touch " + owned + "'";
    hello.common["token_file"] = hello.common["include"] = pipe;
    say(to_line(Up{"", hello}));
    NodeEnd end;
    end.round = 1;
    end.report = "`touch " + owned + "`";
    say(to_line(Up{"", end}));
    zmq::pollitem_t item = {socket.handle(), 0, ZMQ_POLLIN, 0};
    zmq::poll(&item, 1, milliseconds(2000));
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_EQ(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1) << "nobody reads it";
  });
  EXPECT_THAT(log, HasSubstr(" was refused: it differs ")) << "its hello was read";
  EXPECT_FALSE(has("owned"));
}

TEST_F(Strangers, ALauncherWithAnotherTokenSaysWhatItNeeds) {
  const auto first = launch(0);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  const ProcessResult other = launch(1, kToken + "!", {"launch.join_timeout_seconds=4"})->wait();
  EXPECT_EQ(other.exit_code, 1);
  const std::string place = "127.0.0.1:" + std::to_string(port_);
  EXPECT_THAT(
      other.err,
      AllOf(
          HasSubstr(
              "hookline: warning: what listens at " + place +
              " does not accept this node, or is not a hookline launcher; trying for 4 s. The "
              "launcher there must have the same main_address and main_port, and the token that is here "
              "in $HOOKLINE_TOKEN\n"),
          HasSubstr("can't take part in the run: what listens at " + place +
                    " does not accept this node, or is not a hookline launcher: see that main_address and "
                    "main_port are the same on every node, and that the launcher there has the token that is "
                    "here in "
                    "$HOOKLINE_TOKEN\n")));
  const auto second = launch(1);
  EXPECT_THAT(expect_a_good_end(*first, *second),
              HasSubstr("hookline: warning: a connection from 127.0.0.1 to " + place + " " + kRefused));
}

TEST_F(Strangers, AreAllOtherUsersIfNoTokenIsGiven) {
  const auto first = launch(0, "");
  const std::string needs = "this user's token, which is here in '" +
                            (folder_.path() / "own/hookline/token").string() +
                            "' (hosts that do not share the home folder need [rendezvous] token_file or "
                            "$HOOKLINE_TOKEN)\n";
  ASSERT_TRUE(first->wait_for("; they need " + needs)) << first->err();
  zmq::context_t context;
  EXPECT_FALSE(gets_an_answer(context, keys("none"), endpoint()));
  EXPECT_FALSE(gets_an_answer(context, keys("token " + std::string(64, '0')), endpoint()));
  const auto second = launch(1, "");
  expect_a_good_end(*first, *second);
  EXPECT_THAT(first->err(), HasSubstr("a node needs the same main_address and main_port, and " + needs));
}

TEST_F(Strangers, MayJoinARunThatIsInsecure) {
  const std::vector<std::string> open = {"rendezvous.insecure=true"};
  const auto first = launch(0, "", open);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  EXPECT_THAT(first->err(), HasSubstr("hookline: warning: [rendezvous] insecure = true: anybody who reaches "
                                      "127.0.0.1:" +
                                      std::to_string(port_)));
  zmq::context_t context;
  EXPECT_TRUE(gets_an_answer(context, keys("none"), endpoint()));
  const auto second = launch(1, "", open);
  expect_a_good_end(*first, *second);
}

TEST_F(Strangers, StayOutOfAnInsecureRunThatHasAToken) {
  const std::vector<std::string> open = {"rendezvous.insecure=true"};
  const auto first = launch(0, kToken, open);
  ASSERT_TRUE(first->wait_for("waiting for other nodes"));
  EXPECT_THAT(
      first->err(),
      HasSubstr(
          "hookline: warning: [rendezvous] insecure = true has no effect beside a token: only nodes that "
          "have the one in $HOOKLINE_TOKEN may join\n"));
  zmq::context_t context;
  EXPECT_FALSE(gets_an_answer(context, keys("none"), endpoint()));
  first->signal(SIGINT);
  EXPECT_EQ(first->wait().exit_code, 130);
}

TEST_F(Strangers, AreAllInTheTableOfAttacks) {
  std::set<std::string> named = expect_to_have_the_tests_of_attacks({"Strangers"});
  // None of these is an attack.
  for (const char* const other :
       {"Strangers.AreAllInTheTableOfAttacks", "Strangers.MayJoinARunThatIsInsecure",
        "Strangers.TokensThatCannotBeUsedAreRefused"})
    named.insert(other);
  const auto& suite = *::testing::UnitTest::GetInstance()->current_test_suite();
  EXPECT_EQ(named.size(), static_cast<std::size_t>(suite.total_test_count()))
      << "each attack has a row in attacks.h";
  const std::string page = testing::read_file(SECURITY_PAGE);
  EXPECT_NE(page.find("\n" + table_of_attacks() + "\n"), page.npos)
      << "docs/explanations/security.md must have this table:\n"
      << table_of_attacks();
}

TEST_F(Strangers, FindTheTokenNowhere) {
  const auto first = launch(0), second = launch(1);
  ASSERT_TRUE(eventually([&] { return has("here0") && has("here1"); }));
  const std::vector<pid_t> all = testing::running_with((folder_.path() / "own").string());
  EXPECT_GE(all.size(), 10U) << "two launchers, sentinels, agents, relays and ranks";
  for (const pid_t pid : all)
    for (const char* const file : {"cmdline", "environ"})
      EXPECT_THAT(testing::of_process(pid, file), Not(HasSubstr(kToken)))
          << file << " of " << testing::of_process(pid, "comm");
  for (const auto* launcher : {first.get(), second.get()})
    EXPECT_THAT(testing::of_process(relay_of(*launcher), "limits"),
                ::testing::ContainsRegex("Max core file size +0 +0 "));
  expect_a_good_end(*first, *second);
  EXPECT_THAT(first->err() + first->out() + second->err() + second->out(), Not(HasSubstr(kToken)));
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_THAT(testing::read_file(entry.path()), Not(HasSubstr(kToken))) << entry.path();
  }
  EXPECT_GT(files, 4);
}

TEST_F(Strangers, TokensThatCannotBeUsedAreRefused) {
  const auto error_of = [&](const std::string& token, const std::string& file) {
    const auto node = launch(
        0, token, file.empty() ? std::vector<std::string>() : std::vector{"rendezvous.token_file=" + file});
    const ProcessResult result = node->wait();
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  const std::string make_one = "make one with: (umask 077; openssl rand -hex 32 > token)\n";
  EXPECT_EQ(
      error_of("secret", ""),
      "hookline: error: $HOOKLINE_TOKEN is too short for a token: it has 6 of at least 32 characters; " +
          make_one);
  ProcessOptions empty = options_of(0);
  empty.environment["HOOKLINE_TOKEN"] = "";
  EXPECT_EQ(
      Process(HOOKLINE_BINARY, empty).wait().err,
      "hookline: error: $HOOKLINE_TOKEN is too short for a token: it has 0 of at least 32 characters; " +
          make_one);
  folder_.write("two", kToken + "\n" + kToken + "\n");
  std::filesystem::permissions(folder_.path() / "two", std::filesystem::perms::owner_read);
  EXPECT_EQ(error_of("", "two"),
            "hookline: error: token_file 'two' has more than one line, and a token has one: " + make_one);
  folder_.write("open", kToken + "\n");
  std::filesystem::permissions(folder_.path() / "open", std::filesystem::perms(0644));
  EXPECT_THAT(error_of(kToken, "open"),
              AllOf(HasSubstr("hookline: error: token_file 'open' can be read or written "),
                    HasSubstr(": chmod 600 open\n")));
  EXPECT_EQ(error_of(kToken, "missing"),
            "hookline: error: token_file 'missing' can't be read: No such file or directory\n");
  EXPECT_EQ(error_of(kToken, "~/missing"),
            "hookline: error: token_file '~/missing' can't be read: No such file or directory; ~ is not "
            "expanded here: write the path in full\n");
}

}  // namespace
}  // namespace hookline
