#include "launcher/rank/rank_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace hookline {

StoreSocket bind_store_socket(StoreReach reach) {
  StoreSocket store;
  if (reach == StoreReach::any)
    store.descriptor = FileDescriptor(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_ipv6 = store.descriptor.is_open();
  if (!is_ipv6) store.descriptor = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int descriptor = store.descriptor.get(), yes = 1, no = 0;
  const bool is_set_up = store.descriptor.is_open() &&
                         setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                         (!is_ipv6 || setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0);
  const auto bind_to = [&](auto address, auto port) {
    socklen_t size = sizeof address;
    if (!is_set_up || bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error(errno, std::generic_category(), "can't bind a port for the ranks' store");
    store.port = ntohs(address.*port);
  };
  if (is_ipv6) {
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    bind_to(address, &sockaddr_in6::sin6_port);
  } else {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(reach == StoreReach::this_host ? INADDR_LOOPBACK : INADDR_ANY);
    bind_to(address, &sockaddr_in::sin_port);
  }
  return store;
}

StatusSockets make_status_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "can't make the sockets on which ranks report their progress");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace hookline
