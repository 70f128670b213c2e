#include "launcher/rank/rank_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace hookline {

StoreSocket bind_store_socket(bool for_other_hosts) {
  StoreSocket store;
  store.descriptor = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(for_other_hosts ? INADDR_ANY : INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int yes = 1;
  if (!store.descriptor.is_open() ||
      setsockopt(store.descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(store.descriptor.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(store.descriptor.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "can't bind a port for the ranks' store");
  store.port = ntohs(address.sin_port);
  return store;
}

StatusSockets make_status_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "can't make the sockets on which ranks tell how far they are");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace hookline
