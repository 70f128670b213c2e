// A free port for a test's server.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>

namespace hookline::testing {

/// A loopback port that nobody listens on, below the range that the system assigns to outgoing connections.
inline int free_port() {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int port = std::uniform_int_distribution<int>(20'000, 30'000)(random);
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_free = bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(listening);
    if (is_free) return port;
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}

}  // namespace hookline::testing
