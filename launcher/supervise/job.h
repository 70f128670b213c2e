// What a supervisor is to run: the ranks of one node.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "launcher/containment/run_bounds.h"
#include "launcher/output/status_line.h"
#include "launcher/process/outcome.h"
#include "launcher/rank/binding.h"

namespace hookline {

struct RankSpec {
  std::vector<std::string> environment;                    // "NAME=value", complete
  std::optional<std::string> output_prefix, error_prefix;  // of each line that is shown; none: nothing is
  Cores cores;                                             // that it is bound to; empty: to none
  std::filesystem::path log_folder;  // exists; gets stdout.log and stderr.log, and may get error.json
};

/// The other nodes: they get reports, and are a source of stop requests besides the ranks and the user.
struct StopSource {
  std::function<int()> descriptor;  // empty: no such source; returns -1 once nothing more will arrive
  std::function<bool()> read;       // called after each wait; true, once: stop the ranks
  std::function<std::chrono::steady_clock::time_point()> next;  // when to call read() at the latest
  /// Called at the first failure of a rank, with its number in the whole run and the step that it reported
  /// last.
  std::function<void(int rank, const Outcome& outcome, std::optional<std::int64_t> step)> failed;
  /// Called every `status_interval`, if ranks report their times: which rank was the busiest since, and in
  /// what part of its time it did not wait for communication.
  std::function<void(int rank, double busy)> busiest;
};

struct JobSpec {
  std::string program;                 // path of an executable
  std::vector<std::string> arguments;  // argv[0] included
  std::vector<RankSpec> ranks;
  int first_rank = 0;  // the number of ranks[0] in the whole run
  StopSource stop_source;
  const RunBounds* bounds = nullptr;  // of the run; lives as long as it
  FileDescriptor store;               // inherited by rank 0 alone; may hold none
  FileDescriptor status,
      status_of_ranks;  // a pair of datagram sockets, ours and that of all ranks; may hold none
  std::chrono::duration<double> grace_period{10};
  /// Warn if other ranks still run this long after one exits with 0; 0: never.
  std::chrono::duration<double> early_exit{0};
  std::chrono::duration<double> stall_timeout{0};  // without a finished step; 0: never
  bool stall_stacks = false;                       // write down where stuck ranks are
  std::optional<int> explained_exit;  // a rank's code that needs no report: it has said what is wrong
  /// Ranks start with SIGUSR1 ignored; one that comes before a rank's first report is sent again after it.
  bool holds_warnings = false;
  StatusLine::Form status_form = StatusLine::Form::none;
  std::chrono::duration<double> status_interval{60};
};

}  // namespace hookline
