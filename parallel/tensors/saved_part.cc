#include "parallel/tensors/saved_part.h"

#include "base/log.h"
#include "base/text/count_text.h"

namespace hookline {

void Resumption::tell_resets(bool here) {
  if (here) {
    for (const std::string& reset : resets)
      log::warning("not restored from '" + checkpoint + "' (saved by " + count_text(saved_ranks, "rank") +
                   ", now " + std::to_string(ranks) + "): " + reset);
  }
  resets.clear();
}

}  // namespace hookline
