// Launches resuming_rank, for tests that stop and resume it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {

inline constexpr int kRanks = 2;

inline ProcessOptions launch_in(const std::filesystem::path& folder, const std::vector<std::string>& sets,
                                const std::vector<std::string>& program = {RESUMING_RANK_PROGRAM}) {
  ProcessOptions options;
  options.folder = folder;
  options.environment = {{"OMP_NUM_THREADS", "1"}, {"CUDA_VISIBLE_DEVICES", ""}};
  options.arguments = {"launch", "--processes-per-node", std::to_string(kRanks), "--set",
                       "launch.restart_delay_seconds=0"};
  for (const std::string& set : sets) options.arguments.insert(options.arguments.end(), {"--set", set});
  options.arguments.insert(options.arguments.end(), program.begin(), program.end());
  return options;
}

inline ProcessResult run(const ProcessOptions& options) { return run_process(HOOKLINE_BINARY, options); }

/// The line "[RANK] ended at step …" of each rank, in rank order.
inline std::vector<std::string> ends_of(const ProcessResult& result) {
  std::vector<std::string> ends;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("] ended at step ") != std::string::npos) ends.push_back(line);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

inline std::vector<std::string> ends_without_a_stop(const std::vector<std::string>& sets,
                                                    const std::vector<std::string>& program = {
                                                        RESUMING_RANK_PROGRAM}) {
  const TemporaryFolder folder;
  const ProcessResult result = run(launch_in(folder.path(), sets, program));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ends_of(result).size(), kRanks);
  return ends_of(result);
}

inline const std::vector<std::string> kPowerSgd = {"ddp.comm_hook=power_sgd", "ddp.comm_wrapper=fp16",
                                                   "ddp.comm_state_option.start_powerSGD_iter=3",
                                                   "ddp.comm_state_option.min_compression_rate=1"};

inline std::vector<std::string> with(std::vector<std::string> sets, std::initializer_list<std::string> more) {
  sets.insert(sets.end(), more);
  return sets;
}

}  // namespace hookline::testing
