// A rank without libtorch that logs to the trackers of its config and then exits as its argument says.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "config/resolve.h"
#include "config/run_files.h"
#include "hooks/catalog/catalog.h"
#include "tracking/of_config.h"

namespace hookline {
namespace {

/// Once the run's note is in the folder, the run is on the server, and its end can be reported there.
void wait_for_note(const std::filesystem::path& folder) {
  while (!std::filesystem::exists(folder / kMlflowNote))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

int end_as(const std::string& how) {
  const bool is_rank_0 = std::string(std::getenv("RANK")) == "0";
  const bool is_restarted = std::string(std::getenv("TORCHELASTIC_RESTART_COUNT")) != "0";
  if (how == "kill" || (how == "kill, then 0" && !is_restarted && is_rank_0)) std::raise(SIGKILL);
  if (how == "crash") std::raise(SIGSEGV);
  if (how == "exit") std::exit(3);  // NOLINT: the trackers must notice by themselves
  if (how == "return") return 3;
  if (how == "throw") throw std::runtime_error("the loss is not a number");
  if (how == "exit at once") _exit(0);
  if (how == "wait") {
    std::puts("waiting");
    std::fflush(stdout);
    while (true) pause();
  }
  return 0;
}

int run(const std::string& how) {
  const RunConfig config = read_resolved(std::getenv("HOOKLINE_CONFIG"), Catalog::built_in());
  const std::filesystem::path folder = std::getenv("HOOKLINE_RUN_DIR");
  static std::unique_ptr<Trackers> trackers;  // exit() destroys it only after its handlers have run
  if (std::string(std::getenv("RANK")) == "0") {
    trackers = trackers_of(config, folder, Trackers::Clock::now());
    trackers->log(1, 0, {{"loss", 0.5}});
    wait_for_note(folder);
  } else if (how != "end" && how != "exit at once" && how != "kill, then 0") {
    while (true) pause();  // rank 0 ends the run
  }
  const int code = end_as(how);
  trackers.reset();
  return code;
}

}  // namespace
}  // namespace hookline

int main(int, char** arguments) { return hookline::run(arguments[1]); }
