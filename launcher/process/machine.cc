#include "launcher/process/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace hookline {

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  return gethostname(name, sizeof name) == 0 && *name ? name : "this host";
}

std::optional<std::int64_t> memory_kills_so_far() {
  std::ifstream counters("/proc/vmstat");
  std::string name;
  for (std::int64_t count = 0; counters >> name >> count;)
    if (name == "oom_kill") return count;
  return std::nullopt;
}

}  // namespace hookline
