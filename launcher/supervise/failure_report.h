// What the launcher says about ranks that failed.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/rank/error_file.h"
#include "launcher/supervise/decide.h"

namespace hookline {

/// A rank that exited with 0 while others went on.
struct FinishedRank {
  int rank = 0;
  std::optional<std::int64_t> step = {};  // that it told last
};

/// All that is known of the rank which failed first.
struct Failure {
  RootCause cause;
  std::string host;
  std::filesystem::path log_folder;
  std::deque<std::string> last_error_lines;  // of its standard error
  std::optional<RankError> error;            // of its error file
  std::vector<int> stopped_ranks;            // by SIGSTOP or a debugger, when it failed
  std::vector<int> waiting_ranks;            // in a collective, when it was stuck
  std::string error_file_problem;            // why an error file that is there is not shown
  std::optional<bool> memory_ran_out;  // on this host while it ran; unknown where the kernel does not count
  std::vector<std::string> stack_lines = {};      // of the error's stack, with names
  std::vector<FinishedRank> finished_ranks = {};  // before it failed
  std::vector<int> ranks_like_it =
      {};  // at its step when it was stuck, and outside of any collective or not, as it
  bool has_told_no_step = false;  // then
  bool was_waiting = false;       // in a collective when it failed, as far as it told
};

/// Names the rank, how it ended, its own error, the last lines of its standard error, and where its logs are; without a
/// newline at the end.
std::string failure_report(const Failure& failure);

/// The same without the rank: "exited with code 7", and the rest of the report.
std::string failure_details(const Failure& failure);

}  // namespace hookline
