#include "libexec/rendezvous/lone_relay.h"

#include <poll.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "libexec/rendezvous/store/store_server.h"

namespace hookline {

void serve_lone_node(const RelayPlace& place, LauncherSocket& launcher) {
  StoreServer store(launcher, place.address,
                    {.send = [](const std::string&, const StoreWord&) {},  // there is no other node
                     .is_member = [](const std::string&) { return false; }});
  launcher.tell("serves", "yes");
  std::vector<std::string> lines;
  do {
    for (const std::string& line : lines)
      if (line.starts_with("store ")) store.open(line.substr(6));
    lines.clear();
    pollfd items[] = {{launcher.descriptor(), launcher.events(), 0}, {store.descriptor(), POLLIN, 0}};
    if (::poll(items, std::size(items), -1) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    store.serve_ranks();
    launcher.flush();
  } while (launcher.read(lines));
}

}  // namespace hookline
