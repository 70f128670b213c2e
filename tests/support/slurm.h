// A two-node Slurm cluster on this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/hosts.h"
#include "support/process.h"

namespace hookline::testing {

/// Runs Slurm's daemons with configuration and state in a temporary folder; stopped on destruction. The
/// calling thread is in a network namespace of its own from then on, so that no other test has the port that
/// a run derives from its job's number. Needs root, and Debian's packages slurm-wlm and munge.
class Slurm {
 public:
  Slurm();
  ~Slurm();
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;

  /// Why the cluster is not running; empty if it is.
  const std::string& problem() const { return problem_; }

  /// Options for one of its commands, or for a program that calls them.
  ProcessOptions options(std::vector<std::string> arguments) const;
  ProcessResult run(const std::string& command, std::vector<std::string> arguments) const;

 private:
  std::optional<Hosts> host_;
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<Process>> daemons_;
  std::string problem_;
};

}  // namespace hookline::testing
