// Errors that end collectives.
#pragma once

#include <exception>

#include "base/error.h"

namespace hookline {

inline std::exception_ptr group_has_ended() {
  return std::make_exception_ptr(PeerError("the process group has ended"));
}

/// Every rank has this error, since all compare what they start.
inline bool is_on_every_rank(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RanksDiffer&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace hookline
