// The machine's properties that decide which config keys apply to it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace hookline {

struct Detected {
  int cores = 1;
  int gpus = 0;
  std::string scheduler;                // that this process runs under: "Slurm"; empty: none
  std::vector<std::string> interfaces;  // "10.0.0.1 (eth0)": other hosts may reach it there
  std::map<std::string, double> hook_seconds =
      {};  // of a step with each hook, as `hookline advise` has found; empty: not measured
  std::vector<std::string> submitters =
      {};  // what `hookline submit --scheduler` can hand jobs to from here: "slurm"
};

}  // namespace hookline
