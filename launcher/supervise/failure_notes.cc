#include "launcher/supervise/failure_notes.h"

#include <utility>

namespace hookline {

void FailureNotes::finished(int rank, std::optional<std::int64_t> step) {
  finished_.push_back({first_rank_ + rank, step});
}

void FailureNotes::failed(bool was_waiting, const std::vector<int>& stopped) {
  was_waiting_ = was_waiting;
  stopped_ = of_run(stopped);
}

void FailureNotes::stalled(const std::vector<int>& waiting, const std::vector<int>& alike) {
  waiting_ = of_run(waiting);
  alike_ = of_run(alike);
}

Failure FailureNotes::failure(const RootCause& cause, std::optional<std::int64_t> step) const {
  Failure failure;
  failure.cause = cause;
  failure.cause.rank += first_rank_;
  failure.stopped_ranks = stopped_;
  failure.waiting_ranks = waiting_;
  failure.ranks_like_it = alike_;
  failure.has_told_no_step = !step;
  failure.finished_ranks = finished_;
  failure.was_waiting = was_waiting_;
  return failure;
}

std::vector<int> FailureNotes::of_run(std::vector<int> ranks) const {
  for (int& rank : ranks) rank += first_rank_;
  return ranks;
}

}  // namespace hookline
