// Carries lines between the launchers of a run's nodes, over encrypted connections, and holds the ranks'
// store. The launcher starts it if a run has several nodes, or one whose ranks run Python; its only argument
// is JSON that says where they meet. In a run of one node, the launcher writes only "store" lines to it.
//
// With several nodes, the launcher first writes "secret SECRET". Then it writes "up LINE", which goes to
// the coordinator; the coordinator's launcher writes "down NODE LINE", which goes to that node, or to all if
// NODE is "*". This process answers "serves yes" or "serves no": whether the nodes meet at this one. Then it
// passes on "up NODE ADDRESS LINE" (at the node where they meet) and "down LINE", and reports "lost NODE"
// (nothing arrives from it), "back NODE", "stranger ADDRESS" (a connection from there was refused), "warning
// TEXT", "unusable WHY" (it can't join, or can't continue), and "gone WHY" (the node where they meet can't be
// reached). After the last two, "meet JSON" makes it begin again at another place.
//
// "store ROUND here" opens the store for this node's ranks, "store ROUND tcp" also at a port; the answer is
// "store ROUND NAME PORT ADDRESS". When its input ends, it still delivers the lines that it was given.
#include <poll.h>
#include <sys/resource.h>
#include <zmq.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "launcher/process/file_limit.h"
#include "libexec/rendezvous/joining_relay.h"
#include "libexec/rendezvous/lines/launcher_socket.h"
#include "libexec/rendezvous/lone_relay.h"
#include "libexec/rendezvous/place.h"
#include "libexec/rendezvous/run_keys.h"
#include "libexec/rendezvous/serving_relay.h"

namespace {

using hookline::JoiningRelay;
using hookline::LauncherSocket;
using hookline::RelayPlace;
using hookline::RunKeys;
using hookline::ServingRelay;

/// Waits for a line of the launcher's that begins with `word`, and returns the rest of it; nothing if the
/// launcher has gone. Drops what comes before it.
std::optional<std::string> wait_for_line(LauncherSocket& launcher, const std::string& word) {
  std::vector<std::string> lines;
  while (launcher.read(lines)) {
    for (const std::string& line : lines)
      if (line.starts_with(word)) return line.substr(word.size());
    lines.clear();
    pollfd descriptor = {launcher.descriptor(), launcher.events(), 0};
    ::poll(&descriptor, 1, -1);
    launcher.flush();
  }
  return std::nullopt;
}

void relay(const RelayPlace& place, const std::string& secret, zmq::context_t& context,
           LauncherSocket& launcher) {
  const RunKeys keys = hookline::keys_of(secret, hookline::host_and_port(place.name, place.port));
  bool taken_here = false;
  if (place.serves) {
    try {
      ServingRelay(place, keys, context, launcher).run();
      return;
    } catch (const zmq::error_t& error) {
      taken_here = error.num() == EADDRINUSE;
      if (!taken_here) {
        launcher.tell("unusable",
                      "the nodes can't meet at " + place.address_and_port() + ": " + error.what());
        return;
      }
      if (!place.may_join) {
        launcher.tell("unusable",
                      "the port " + std::to_string(place.port) +
                          " is taken on this host, by another program or by a node that has the "
                          "same node_rank: set [rendezvous] main_port to a free one, on every node");
        return;
      }
    }
  }
  JoiningRelay(place, keys, context, launcher, taken_here).run();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "node_relay: this is a part of 'hookline launch', which starts it by itself\n");
    return 2;
  }
  // A scheduler signals every process of a job. This one ignores signals: its launcher tells it when to end.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  const rlimit no_core = {0, 0};  // it would hold the secret
  ::setrlimit(RLIMIT_CORE, &no_core);
  const RelayPlace first = hookline::place_of(argv[1]);
  LauncherSocket launcher(first.descriptor);
  try {
    const hookline::RaisedFileLimit each_connection_takes_one;
    if (first.alone) {
      hookline::serve_lone_node(first, launcher);
      return 0;
    }
    const auto secret = wait_for_line(launcher, "secret ");
    if (!secret) return 0;
    if (zmq_has("curve") != 1) throw std::runtime_error("libzmq on this host was built without CURVE");
    zmq::context_t context;
    relay(first, *secret, context, launcher);
    while (const auto place = wait_for_line(launcher, "meet "))
      relay(hookline::place_of(*place), *secret, context, launcher);
  } catch (const std::exception& error) {
    launcher.tell("unusable", error.what());
  }
  launcher.finish();
}
