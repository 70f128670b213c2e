#include "libexec/rendezvous/unreachable.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace hookline {
namespace {

bool listens(const StoreArguments& place) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &found) != 0)
    return false;
  bool answers = false;
  for (const addrinfo* at = found; at && !answers; at = at->ai_next) {
    const int descriptor = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    const timeval patience = {1, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // limits connect, too
    answers = ::connect(descriptor, at->ai_addr, at->ai_addrlen) == 0;
    ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return answers;
}

}  // namespace

std::string why_unreachable(const StoreArguments& place, bool taken_here, const std::string& reason) {
  if (taken_here)
    return "the port " + std::to_string(place.port) +
           " of this host is taken by another program, which is no node of " +
           "hookline's: set [rendezvous] main_port to a free one, on every node";
  if (!listens(place))
    return "no node that serves the nodes' store answers at " + place.address_and_port() + " (" + reason +
           "): see that 'hookline launch' runs there, and that main_address and main_port are the same on "
           "every node";
  return "what listens at " + place.address_and_port() +
         " does not answer as a node of hookline's does: see that main_address and " +
         "main_port are the same on every node";
}

}  // namespace hookline
