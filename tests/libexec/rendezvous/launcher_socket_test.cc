#include "libexec/rendezvous/lines/launcher_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "launcher/rendezvous/messages.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Both ends of the socket between a launcher and its node_relay process.
struct Ends {
  Ends() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    launcher = FileDescriptor(ends[0]);
    node = FileDescriptor(ends[1]);
  }
  void say(std::string_view text) const {
    EXPECT_EQ(send(launcher.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  FileDescriptor launcher, node;
};

TEST(LauncherSocket, DeliversOnlyWholeLines) {
  const Ends ends;
  LauncherSocket socket(ends.node.get());
  std::vector<std::string> lines;
  EXPECT_TRUE(socket.read(lines)) << "nothing has come yet";
  ends.say("up a\ndown b\nup");
  EXPECT_TRUE(socket.read(lines));
  EXPECT_THAT(lines, ElementsAre("up a", "down b"));
  lines.clear();
  ends.say(" c\n");
  EXPECT_TRUE(socket.read(lines));
  EXPECT_THAT(lines, ElementsAre("up c"));
}

TEST(LauncherSocket, DeliversTheLongestMessage) {
  const Ends ends;
  LauncherSocket socket(ends.node.get());
  const std::string line = "down " + std::string(kLongestMessageBytes, 'x');
  std::thread launcher([&] { ends.say(line + "\n"); });
  std::vector<std::string> lines;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (lines.empty() && std::chrono::steady_clock::now() < end) socket.read(lines);
  launcher.join();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0] == line);
}

TEST(LauncherSocket, SaysWhenTheLauncherIsGone) {
  Ends ends;
  LauncherSocket socket(ends.node.get());
  ends.launcher.reset();
  std::vector<std::string> lines;
  EXPECT_FALSE(socket.read(lines));
  EXPECT_THAT(lines, IsEmpty());
  socket.tell("gone", "nobody reads this");
}

// The launcher may be waiting for this process to read.
TEST(LauncherSocket, NeverWaitsForALauncherThatDoesNotRead) {
  const Ends ends;
  LauncherSocket socket(ends.node.get());
  const std::string line(kLongestMessageBytes, 'x');
  for (int i = 0; i < 3; ++i) socket.tell("up", line);
  EXPECT_EQ(socket.events(), POLLIN | POLLOUT);
  std::size_t received = 0;
  const std::size_t whole = 3 * (line.size() + std::string("up \n").size());
  std::thread launcher([&] {
    char block[65536];
    while (received < whole) {
      const ssize_t count = recv(ends.launcher.get(), block, sizeof block, 0);
      if (count <= 0) break;
      received += static_cast<std::size_t>(count);
    }
  });
  socket.finish();
  launcher.join();
  EXPECT_EQ(received, whole);
  EXPECT_EQ(socket.events(), POLLIN);
}

TEST(LauncherSocket, SendsMultiLineTextAsOneMessage) {
  const Ends ends;
  LauncherSocket(ends.node.get()).tell("gone", "first\nsecond");
  char text[64];
  const ssize_t count = recv(ends.launcher.get(), text, sizeof text, 0);
  ASSERT_GT(count, 0);
  EXPECT_EQ(std::string_view(text, static_cast<std::size_t>(count)), "gone first second\n");
}

}  // namespace
}  // namespace hookline
