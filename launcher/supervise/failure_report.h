// What the launcher says about ranks that failed.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/rank/error_file.h"
#include "launcher/supervise/next_action.h"

namespace hookline {

/// A rank that exited with 0 while others continued.
struct FinishedRank {
  int rank = 0;
  std::optional<std::int64_t> step = {};  // that it reported last
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
  std::optional<bool> memory_ran_out;  // on this host during the attempt; none: the kernel does not count it
  std::vector<std::string> stack_lines = {};      // of the error's stack, with symbol names
  std::vector<FinishedRank> finished_ranks = {};  // that exited with 0 before it failed
  std::vector<int> ranks_like_it =
      {};  // if it was stuck: ranks at the same step that were, like it, in a collective or in none
  bool has_told_no_step = false;  // it never reported a step
  bool was_waiting = false;       // its last report said that it waited in a collective
};

/// Names the rank, how it ended, its own error, the last lines of its standard error, and where its logs are;
/// without a newline at the end.
std::string failure_report(const Failure& failure);

/// The same without the rank: "exited with code 7", and the rest of the report.
std::string failure_details(const Failure& failure);

/// `report`, at most some 64 KiB of it: of a longer one its middle is left out, and it says so.
std::string shortened_report(const std::string& report);

}  // namespace hookline
