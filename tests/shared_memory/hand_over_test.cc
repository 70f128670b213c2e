// Hands shared memory to other processes of this machine, and to no one else.
#include "shared_memory/hand_over.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <future>
#include <string>
#include <thread>

#include "base/error.h"

namespace hookline {
namespace {

constexpr std::size_t kBytes = 8192;
constexpr std::chrono::seconds kTimeout{60};
constexpr std::size_t kTokenCharacters = 32;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(HandOver, SharesMemoryBetweenProcesses) {
  const SharedSegment segment(kBytes);
  SegmentSource source(segment);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto received = receive_segment(source.address(), kBytes, kTimeout);
    received->data()[kBytes - 1] = std::byte{42};
    _exit(received->data()[0] == std::byte{7} ? 0 : 1);
  }
  segment.data()[0] = std::byte{7};
  source.hand_over(1, kTimeout);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(segment.data()[kBytes - 1], std::byte{42});
}

/// A connected socket that has sent nothing; unconnected if too many are already waiting.
int connected_to(const SegmentSource& source) {
  const int own = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = source.address().substr(kTokenCharacters);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_TRUE(connect(own, reinterpret_cast<const sockaddr*>(&address), length) == 0 || errno == EAGAIN);
  return own;
}

TEST(HandOver, IgnoresStrangers) {
  const SharedSegment segment(kBytes);
  SegmentSource source(segment);
  std::thread strangers([&] {
    std::string wrong = source.address();
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    EXPECT_EQ(error_of([&] { receive_segment(wrong, kBytes, kTimeout); }).substr(0, 37),
              "the shared memory can't be received: ");
    close(connected_to(source));  // without sending anything
    EXPECT_EQ(receive_segment(source.address(), kBytes, kTimeout)->bytes(), kBytes);
  });
  source.hand_over(1, kTimeout);
  strangers.join();
}

TEST(HandOver, FailsIfNoConnectionCanBeAccepted) {
  const SharedSegment segment(kBytes);
  SegmentSource source(segment);
  const int waiting = connected_to(source);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(waiting) + 1, before.rlim_max};  // no more than are already open
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::exception_ptr problem;
  try {
    source.hand_over(1, kTimeout);
  } catch (...) {
    problem = std::current_exception();  // inspected later: sanitizers need descriptors for that
  }
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(problem);
  EXPECT_EQ(error_of([&] { std::rethrow_exception(problem); }),
            "the shared memory can't be handed over: Too many open files");
  close(waiting);
}

TEST(HandOver, IsNotDelayedByAStreamOfStrangers) {
  const SharedSegment segment(kBytes);
  SegmentSource source(segment);
  std::atomic<bool> is_over = false;
  std::thread strangers([&] {
    while (!is_over) close(connected_to(source));
  });
  EXPECT_EQ(error_of([&] { source.hand_over(1, std::chrono::milliseconds(200)); }),
            "1 of 1 rank has not asked for the shared memory");
  is_over = true;
  strangers.join();
}

TEST(HandOver, SaysHowManyRanksDidNotCome) {
  const SharedSegment segment(kBytes);
  SegmentSource source(segment);
  EXPECT_EQ(error_of([&] { source.hand_over(3, std::chrono::milliseconds(50)); }),
            "3 of 3 ranks have not asked for the shared memory");
}

TEST(HandOver, SaysThatTheSourceIsNotThere) {
  std::string address;
  {
    const SharedSegment segment(kBytes);
    address = SegmentSource(segment).address();
  }
  EXPECT_EQ(error_of([&] { receive_segment(address, kBytes, kTimeout); }),
            "the rank that shares its memory can't be reached: Connection refused");
  EXPECT_EQ(error_of([] { receive_segment("abc", kBytes, kTimeout); }),
            "'abc' is not an address of shared memory");
}

TEST(HandOver, RefusesMemoryThatMightShrinkOrIsOfAnotherSize) {
  const SharedSegment segment(kBytes);
  const std::string expected = "what was received is not shared memory of 4 KiB";
  EXPECT_EQ(error_of([&] { SharedSegment(dup(segment.descriptor()), 4096); }), expected);
  const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  EXPECT_EQ(error_of([&] { SharedSegment(file, 4096); }), expected);
  EXPECT_NE(ftruncate(segment.descriptor(), 0), 0) << "sealed";
}

TEST(SharedSegment, SaysWhyItCannotBeCreated) {
  EXPECT_EQ(error_of([] { SharedSegment(std::size_t{1} << 63); }),
            "shared memory of 8192 PiB: ftruncate: Invalid argument");
}

}  // namespace
}  // namespace hookline
