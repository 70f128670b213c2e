// Text that nobody can guess.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.h"

namespace hookline {

/// `bytes` of the system's random numbers, at most 256, as hexadecimal digits. Throws Error.
inline std::string random_hex(std::size_t bytes) {
  std::string random(bytes, '\0'), digits;
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw Error(std::string("getrandom: ") + std::strerror(errno));
  for (const char byte : random)
    for (const int digit : {(byte >> 4) & 15, byte & 15}) digits += "0123456789abcdef"[digit];
  return digits;
}

}  // namespace hookline
