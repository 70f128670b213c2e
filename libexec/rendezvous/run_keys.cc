#include "libexec/rendezvous/run_keys.h"

#include <sodium.h>

#include <string_view>

#include "base/error.h"

namespace hookline {
namespace {

KeyPair pair_of(const std::string& secret, const std::string& place, std::string_view role) {
  const std::string text = "hookline rendezvous 2 " + std::string(role) + "\n" + place + "\n" + secret;
  KeyPair pair;
  static_assert(crypto_scalarmult_SCALARBYTES == 32 && crypto_scalarmult_BYTES == 32);
  crypto_generichash(pair.secret_key.data(), pair.secret_key.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  crypto_scalarmult_base(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

}  // namespace

RunKeys keys_of(const std::string& secret, const std::string& place) {
  if (sodium_init() < 0) throw Error("libsodium can't be used on this machine");
  return {pair_of(secret, place, "serving"), pair_of(secret, place, "joining")};
}

}  // namespace hookline
