// examples/sweep/on_link.sh: runs a command on a private network with a given rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/process.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::ProcessResult;

ProcessResult on_link(std::vector<std::string> arguments) {
  testing::ProcessOptions options;
  options.arguments = std::move(arguments);
  return testing::run_process(ON_LINK_SCRIPT, options);
}

// Measures the seconds to send 5 MB between two loopback sockets.
constexpr const char* kTransfer = R"(
import socket, threading, time
size = 5_000_000
listening = socket.create_server(("127.0.0.1", 0))
sending = socket.create_connection(listening.getsockname())
receiving, _ = listening.accept()
start = time.monotonic()
threading.Thread(target=lambda: sending.sendall(bytes(size))).start()
left = size
while left > 0:
    left -= len(receiving.recv(1 << 20))
print(time.monotonic() - start)
)";

TEST(OnLink, CarriesNoMoreThanItsRate) {
  const ProcessResult able = on_link({"1gbit", "true"});
  if (able.exit_code != 0) GTEST_SKIP() << "a private network can't be made here: " << able.err;
  const ProcessResult slow = on_link({"50mbit", "python3", "-c", kTransfer});
  ASSERT_EQ(slow.exit_code, 0) << slow.err;
  // 40 Mbit minus a burst of 2 Mbit, at the 100 Mbit/s of both directions together.
  EXPECT_GE(std::stod(slow.out), 0.35);
  const ProcessResult outside = on_link({"1gbit", "ip", "-brief", "address"});
  EXPECT_THAT(outside.out, HasSubstr("127.0.0.1"));
  EXPECT_EQ(outside.out.find("UP "), std::string::npos) << "nothing but the loopback: " << outside.out;
}

TEST(OnLink, ExitsWithTheCodeOfItsCommand) {
  if (on_link({"1gbit", "true"}).exit_code != 0) GTEST_SKIP() << "a private network can't be made here";
  EXPECT_EQ(on_link({"1gbit", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(on_link({"1gbit", "no-such-program"}).exit_code, 127);
}

TEST(OnLink, SaysWhatIsWrong) {
  const ProcessResult none = on_link({});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("usage: "));
  for (const std::string rate :
       {"fast", "100", "100mbi", "-5mbit", "1.5gbit", "100 mbit", "0mbit", "1bit", "99999gbit"}) {
    const ProcessResult wrong = on_link({rate, "true"});
    EXPECT_EQ(wrong.exit_code, 2) << rate;
    EXPECT_THAT(wrong.err, HasSubstr("'" + rate +
                                     "' is not a rate: 1 to 9999 and kbit, mbit or gbit, such as 100mbit\n"));
  }
}

}  // namespace
}  // namespace hookline
