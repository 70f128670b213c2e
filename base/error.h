// The exceptions that hookline throws.
#pragma once

#include <stdexcept>
#include <string>

namespace hookline {

/// The base of hookline's errors in a rank but for ConfigError and CatalogError, which derive from
/// std::runtime_error; what() holds where it happened, what is wrong, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A hook that cannot be built (unknown name, option out of range), or that cannot handle the tensors or the
/// state that it is given.
class HookError : public Error {
 public:
  using Error::Error;
};

/// A collective that failed because another rank is gone or cannot be reached. Futures of a hook's
/// collectives hold it; a program gets RunFailed.
class PeerError : public Error {
 public:
  using Error::Error;
};

/// The ranks have started different collectives; each rank notices this by itself. Futures of a hook's
/// collectives hold it; a program gets RunFailed.
class RanksDiffer : public Error {
 public:
  using Error::Error;
};

/// The run has failed, on this rank or another: every rank that waits for others gets this error. The ranks
/// may form a new World and train on; models and process groups of the old one cannot be used.
class RunFailed : public Error {
 public:
  /// What made a run fail.
  enum class Cause {
    error,        ///< of a rank, or of what the ranks do together
    rank_left,    ///< while others waited for it
    rank_silent,  ///< dead, stopped or cut off
  };

  /// `what`: the text for people.
  explicit RunFailed(const std::string& what, Cause cause = Cause::error) : Error(what), cause_(cause) {}

  /// Why the run failed, for code that decides something by it.
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

}  // namespace hookline
