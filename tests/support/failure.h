// The error message of a failing action, for exact comparison.
#pragma once

#include <string>

#include "base/error.h"

namespace hookline::testing {

/// what() of the `Failure` that `action` throws, or "no error". Other exceptions pass through.
template <class Failure = Error, class Action>
std::string failure_of(const Action& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no error";
}

}  // namespace hookline::testing
