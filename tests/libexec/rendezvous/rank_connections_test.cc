// Who may connect to the store of the ranks, and where.
#include "libexec/rendezvous/store/rank_connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/unix_socket.h"
#include "launcher/rendezvous/attacks.h"

namespace hookline {
namespace {

using ConnectionEvent = RankConnections::Event;

/// How many connections are opened within a tenth of a second.
int opened(RankConnections& ranks) {
  int count = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < end) {
    for (const auto& event : ranks.events()) count += event.kind == ConnectionEvent::Kind::opened;
    ::usleep(1000);
  }
  return count;
}

FileDescriptor connected_to(const char* address, int port) {
  FileDescriptor tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address, &there.sin_addr);
  if (::connect(tcp.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) tcp.reset();
  return tcp;
}

TEST(RankConnections, TakeNoProcessOfAnotherUser) {
  EXPECT_EQ(expect_to_have_the_tests_of_attacks({"RankConnections"}).size(), 1U);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  RankConnections ranks;
  const std::string name = ranks.listen_here();
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    char answer = 0;
    if (!connect_to_name(socket, name)) ::_exit(3);
    ::_exit(::recv(socket, &answer, 1, 0) > 0 ? 1 : 0);
  }
  EXPECT_EQ(opened(ranks), 0);
  int status = -1;
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0) << "it was disconnected without an answer";
  const FileDescriptor own(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(connect_to_name(own.get(), name));
  EXPECT_EQ(opened(ranks), 1);
}

TEST(RankConnections, ListenAtOnePortOfEachAddressAndNoOther) {
  RankConnections ranks;
  ranks.listen_here();
  const int port = ranks.listen_at({"127.0.0.1", "127.0.0.2"}, [](const std::string&) { return false; });
  EXPECT_TRUE(connected_to("127.0.0.1", port).is_open());
  EXPECT_TRUE(connected_to("127.0.0.2", port).is_open());
  EXPECT_FALSE(connected_to("127.0.0.3", port).is_open());
  EXPECT_EQ(opened(ranks), 2);
}

}  // namespace
}  // namespace hookline
