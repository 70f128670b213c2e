// What hookline throws.
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

/// A collective that failed: another rank is gone or can't be reached.
class PeerError : public Error {
 public:
  using Error::Error;
};

/// The ranks have started different collectives, which each of them has found out by itself.
class RanksDiffer : public Error {
 public:
  using Error::Error;
};

/// The run has failed, on this rank or on another: what a wait for the others ends with, on every rank. The ranks may
/// form a new World and train on; models and process groups of the old one are of no use.
class RunFailed : public Error {
 public:
  using Error::Error;
};

}  // namespace hookline
