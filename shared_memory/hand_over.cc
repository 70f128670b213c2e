#include "shared_memory/hand_over.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/random_hex.h"
#include "base/text/count_text.h"
#include "base/unix_socket.h"

namespace hookline {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::size_t kTokenCharacters = 32;
constexpr std::chrono::seconds kPatience{5};  // for a process that has connected

[[noreturn]] void fail(const std::string& what) { throw Error(what + ": " + std::strerror(errno)); }

struct Ancillary {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace

SegmentSource::SegmentSource(const SharedSegment& segment)
    : segment_(segment),
      token_(random_hex(kTokenCharacters / 2)),
      socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  if (socket_ < 0) fail("a socket for shared memory");
  std::string name;
  if (!listen_anywhere(socket_, SOMAXCONN) || (name = name_of_socket(socket_)).empty()) {
    const int reason = errno;
    ::close(socket_);
    errno = reason;
    fail("a socket for shared memory");
  }
  address_ = token_ + name;
}

SegmentSource::~SegmentSource() { ::close(socket_); }

void SegmentSource::hand_over(int receivers, std::chrono::milliseconds timeout) {
  const Clock::time_point until = Clock::now() + timeout;
  for (int served = 0; served < receivers;) {
    if (const int left = receivers - served; Clock::now() >= until || !readable_by(socket_, until))
      throw Error(std::to_string(left) + " of " + count_text(receivers, "rank") +
                  (left == 1 ? " has" : " have") + " not asked for the shared memory");
    if (serve_one(until)) ++served;
  }
}

bool SegmentSource::serve_one(Clock::time_point until) {
  const FileDescriptor peer(::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC));
  if (peer.get() < 0 && errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
    fail("the shared memory can't be handed over");
  if (peer.get() < 0 || !is_of_this_user(peer.get())) return false;
  std::string token(kTokenCharacters + 1, '\0');
  if (!readable_by(peer.get(), std::min(until, Clock::now() + kPatience))) return false;
  const ssize_t read = ::recv(peer.get(), token.data(), token.size(), 0);
  if (read < 0 || token.substr(0, static_cast<std::size_t>(read)) != token_) return false;

  char content = 0;
  iovec part{&content, sizeof content};
  Ancillary ancillary;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = segment_.descriptor();
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  return ::sendmsg(peer.get(), &message, MSG_NOSIGNAL) == sizeof content;
}

std::unique_ptr<SharedSegment> receive_segment(const std::string& address, std::size_t bytes,
                                               std::chrono::milliseconds timeout) {
  if (address.size() <= kTokenCharacters) throw Error("'" + address + "' is not an address of shared memory");
  const FileDescriptor own(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (own.get() < 0) fail("a socket for shared memory");
  if (!connect_to_name(own.get(), address.substr(kTokenCharacters)))
    fail("the rank that shares its memory can't be reached");
  if (!is_of_this_user(own.get())) throw Error("the rank that shares its memory is another user's");
  if (::send(own.get(), address.data(), kTokenCharacters, MSG_NOSIGNAL) < 0)
    fail("the rank that shares its memory can't be asked");

  char content = 0;
  iovec part{&content, sizeof content};
  Ancillary ancillary;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  if (!readable_by(own.get(), Clock::now() + timeout))
    throw Error("the rank that shares its memory does not answer");
  if (::recvmsg(own.get(), &message, MSG_CMSG_CLOEXEC) <= 0) fail("the shared memory can't be received");
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (!rights || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len != CMSG_LEN(sizeof(int)))
    throw Error("the rank that shares its memory has sent none");
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
  return std::make_unique<SharedSegment>(descriptor, bytes);
}

}  // namespace hookline
