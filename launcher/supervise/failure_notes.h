// What is noted while ranks run, for the report on the rank that fails first. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/supervise/failure_report.h"

namespace hookline {

/// Takes ranks as the supervisor counts them, from 0 on each node; a Failure has the numbers of the whole
/// run.
class FailureNotes {
 public:
  explicit FailureNotes(int first_rank) : first_rank_(first_rank) {}

  /// A rank exited with code 0 before any failed; `step` is the last that it reported.
  void finished(int rank, std::optional<std::int64_t> step);

  /// The first rank failed; `was_waiting` says whether in a collective, and `stopped` which ranks a signal or
  /// a debugger had stopped.
  void failed(bool was_waiting, const std::vector<int>& stopped);

  /// The run stalled. `waiting`: ranks in a collective. `alike`: ranks that may be stuck just as well as the
  /// one that is named.
  void stalled(const std::vector<int>& waiting, const std::vector<int>& alike);

  /// The failure as far as the notes know it. `step` is the last that the rank reported. What the host knows
  /// (its name, logs, error file and memory) is still to be added.
  Failure failure(const RootCause& cause, std::optional<std::int64_t> step) const;

 private:
  std::vector<int> of_run(std::vector<int> ranks) const;

  int first_rank_;
  std::vector<FinishedRank> finished_;
  bool was_waiting_ = false;
  std::vector<int> stopped_, waiting_, alike_;
};

}  // namespace hookline
