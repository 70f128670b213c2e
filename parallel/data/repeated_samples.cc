#include "parallel/data/repeated_samples.h"

#include <algorithm>

#include "base/text/count_text.h"

namespace hookline {

const detail::EpochPlan* loader_that_repeats(const TrainingPlace& place, const at::Tensor& tensor,
                                             bool adds) {
  const detail::EpochPlan* loader = place.loader_in_hand();
  if (loader && !(loader->at_last_batch() && loader->repeated_samples() > 0)) loader = nullptr;
  if (loader && adds && loader->is_pass_trained_on()) loader = nullptr;  // a loss, as DDP averages it
  if (loader && !adds && (tensor.dim() == 0 || tensor.size(0) != loader->last_batch_size())) loader = nullptr;
  if (!loader)
    for (const auto& other : place.loaders())
      if (other->has_ended_with_repeats()) loader = other.get();
  return loader;
}

std::string repeated_samples_warning(const std::string& call, std::int64_t repeated,
                                     std::int64_t world_size) {
  const std::int64_t ranks = std::min(repeated, world_size);
  return call + ": the loader repeats " + count_text(repeated, "sample") +
         " in the last batches of an epoch, so that every rank has the same number, and a sum or an average "
         "over the ranks counts " +
         (repeated == 1 ? "it" : "them") + " twice. The last row of " +
         (ranks == 1 ? "the last rank is a repeat: leave it out"
                     : "each of the last " + std::to_string(ranks) + " ranks is a repeat: leave them out") +
         ", or make the loader with drop_last = true";
}

}  // namespace hookline
