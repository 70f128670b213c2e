// Carries lines between the launchers of a run's nodes, through c10d's TCPStore. The launcher starts it if a
// run has several nodes; its only argument is JSON that says where the store is.
//
// The launcher writes "up LINE", which goes to the coordinator, and the coordinator's launcher writes "down
// LINE", which goes to all nodes. This process first answers "serves yes" or "serves no": whether this node
// serves the store. Then it passes on "up LINE" (on the node that serves the store) and "down LINE", and
// reports "lost NODE" (no heartbeat), "unreachable WHY" and "unusable WHY" (it can't join), and "gone WHY"
// (the store is gone). The store keeps the lines of each direction in one order for all nodes. When its input
// ends, it still delivers the lines that it was given.
#include <c10/util/Logging.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/duration_text.h"
#include "libexec/rendezvous/launcher_socket.h"
#include "libexec/rendezvous/place.h"
#include "libexec/rendezvous/store_node.h"
#include "libexec/rendezvous/unreachable.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::milliseconds kTimeForAStranger{3000};  // beyond the time to join

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "store_node: this is a part of 'hookline launch', which starts it by itself\n");
    return 2;
  }
  // A scheduler signals every process of a job. This one ignores signals: its launcher tells it when to end.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);  // hookline reports errors itself
  c10::initLogging();
  const hookline::StoreArguments place = hookline::place_of(argv[1]);
  const auto start = Clock::now();
  hookline::LauncherSocket launcher(place.descriptor);
  hookline::SharedLines shared;
  hookline::StoreNode node(place, launcher, shared);
  std::thread talker([&] { node.run(); });
  bool open = true;
  while (!shared.ended) {
    std::vector<std::string> lines;
    if (open && !launcher.read(lines, kTick)) open = false;
    if (!open) std::this_thread::sleep_for(kTick);
    {
      const std::lock_guard lock(shared.mutex);
      for (const std::string& line : lines) {
        if (line.starts_with("up ")) shared.up.push_back(line.substr(3));
        if (line.starts_with("down ")) shared.down.push_back(line.substr(5));
      }
      shared.closing = !open;
    }
    if (!open && !shared.joined) break;
    // Another program that listens on this port may never answer.
    if (!shared.joined && Clock::now() - start > place.join_timeout + kTimeForAStranger) {
      launcher.tell("unreachable",
                    hookline::why_unreachable(place, node.taken_here(), "it did not answer in time"));
      break;
    }
    // A call to a store whose host is cut off does not return.
    const auto silence = Clock::now() - shared.answered.load();
    if (shared.joined && silence > place.node_timeout) {
      launcher.tell("gone", "it has not answered for " + hookline::seconds_text(silence));
      break;
    }
  }
  std::fflush(nullptr);
  std::_Exit(0);  // the talker may never return
}
