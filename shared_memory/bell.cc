#include "shared_memory/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <limits>

namespace hookline {

std::uint32_t Bell::expect(std::uint64_t ranks) {
  const std::uint32_t ticket = rings_.load();
  expected_.store(ranks);
  return ticket;
}

void Bell::sleep(std::uint32_t ticket, std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (limit - seconds).count();
  // Not FUTEX_PRIVATE_FLAG: the word is another process's too.
  ::syscall(SYS_futex, &rings_, FUTEX_WAIT, ticket, &timeout, nullptr, 0);
}

void Bell::ring(std::uint64_t ranks) {
  if ((expected_.load() & ranks) == 0) return;
  expected_.store(0);
  rings_.fetch_add(1);
  ::syscall(SYS_futex, &rings_, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace hookline
