#include "parallel/tensors/saved_part.h"

#include "base/log.h"

namespace hookline {

void Resumption::tell_resets(bool here) {
  if (here) {
    for (const std::string& reset : resets)
      log::warning("not restored from '" + checkpoint + "' (saved by " + std::to_string(saved_ranks) +
                   (saved_ranks == 1 ? " rank" : " ranks") + ", now " + std::to_string(ranks) +
                   "): " + reset);
  }
  resets.clear();
}

}  // namespace hookline
