#include "libexec/rendezvous/addresses_of.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>

namespace hookline {

std::vector<std::string> addresses_of(const std::string& host, std::string& why) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  std::vector<std::string> addresses;
  for (const addrinfo* at = found; error == 0 && at; at = at->ai_next) {
    char digits[NI_MAXHOST] = "";
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, digits, sizeof digits, nullptr, 0, NI_NUMERICHOST) == 0 &&
        std::find(addresses.begin(), addresses.end(), digits) == addresses.end())
      addresses.emplace_back(digits);
  }
  if (found) ::freeaddrinfo(found);
  if (addresses.empty()) why = "'" + host + "' is not known here: " + ::gai_strerror(error);
  return addresses;
}

}  // namespace hookline
