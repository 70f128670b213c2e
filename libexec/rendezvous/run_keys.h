// The keys of a run's connections, which everyone who holds its secret can derive.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace hookline {

/// A key pair of CURVE (Curve25519), as libzmq takes it.
struct KeyPair {
  std::array<std::uint8_t, 32> public_key{}, secret_key{};
};

/// Those who meet: each knows both pairs, since both follow from the secret. The joining nodes share one.
struct RunKeys {
  KeyPair serving, joining;
};

/// Derives the keys of those who meet at `place` ("node1:29500", as all nodes call it) by BLAKE2b
/// (libsodium's crypto_generichash). With the place in them, nobody can lead a node to another run that has
/// the same secret. The secret must be as hard to guess as a key: whoever records a handshake can try secrets
/// at leisure. Throws Error if libsodium can't be used.
RunKeys keys_of(const std::string& secret, const std::string& place);

}  // namespace hookline
