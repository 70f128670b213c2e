// What `hookline advise` and `hookline test` have in common: they start ranks for a short run, and report.
#pragma once

#include <string>
#include <vector>

#include "config/resolve.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/verb_parser.h"

namespace hookline {

struct ShortRunFlags {
  ConfigChoice config;
  std::string processes_per_node;
  std::vector<std::string> sets;

  /// Adds --config, --profile and --processes-per-node.
  void add_ranks_flags(VerbParser& parser);
  /// Adds --set KEY=VALUE.
  void add_set_flag(VerbParser& parser);

  /// Values for the config: the verb's `own`, what such a run needs (it neither restarts nor saves nor
  /// resumes), and what these flags give. Messages name `verb` ("hookline test") as the origin of what such
  /// a run needs. Throws UsageError if a key is given twice.
  std::vector<Override> overrides(const std::string& verb, std::vector<Override> own) const;
};

/// Sets two ranks for a run that would have one alone, since a single rank sends nothing. Keeps a number that
/// the config gives.
void take_two_ranks(RunConfig& config);

}  // namespace hookline
