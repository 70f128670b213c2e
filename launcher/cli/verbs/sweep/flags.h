// The flags of `hookline sweep`, and which of them go together.
#pragma once

#include <string>
#include <vector>

namespace hookline {

class VerbParser;

struct SweepFlags {
  std::string output, scheduler, template_file;
  std::vector<std::string> rerun, scheduler_arguments;
  bool retry_failed = false, repair = false, dry_run = false, json = false, print = false, no_follow = false;

  bool on_slurm() const { return !scheduler.empty(); }

  /// The flags given that run finished trials again, for people: "--retry-failed and --rerun".
  std::string again() const {
    std::string names = retry_failed ? "--retry-failed" : "";
    if (!rerun.empty()) names += std::string(names.empty() ? "" : " and ") + "--rerun";
    return names;
  }

  /// The parser fills them in; they must outlive it.
  void add_to(VerbParser& parser);

  /// Throws UsageError.
  void check() const;
};

}  // namespace hookline
