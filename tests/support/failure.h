// The message that an action fails with, for asserting it word for word.
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
