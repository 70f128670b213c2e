// To be preloaded: the time of day is a year later as long as the file that $CLOCK_JUMPS_WHILE names
// exists. Clocks that only measure how much time has passed are not touched.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

constexpr std::time_t kYear = 366 * 24 * 3600;

std::time_t jump() {
  const char* const file = std::getenv("CLOCK_JUMPS_WHILE");
  return file && ::access(file, F_OK) == 0 ? kYear : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return static_cast<int>(result);
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return result;
}

std::time_t time(std::time_t* now) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
}
