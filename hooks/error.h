// What hookline's torch half throws.
#pragma once

#include <stdexcept>

namespace hookline {

/// The base of every error that hookline raises on purpose; what() says where, what, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A hook that can't be built (unknown name, option out of range) or can't carry what it is given.
class HookError : public Error {
 public:
  using Error::Error;
};

}  // namespace hookline
