#include "launcher/supervise/machine.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace hookline {

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace hookline
