// The flags of one verb.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "launcher/cli/arguments.h"

namespace hookline {

/// A flag as help shows it.
struct DescribedFlag {
  std::string name;   // "--config"; of several names the longest
  std::string value;  // "FILE"; empty: it takes none
  std::string help;
};

/// What a verb says of itself.
struct DescribedVerb {
  std::string usage, summary, example;
  std::vector<DescribedFlag> flags;
};

/// While it lives, a verb that is run does nothing but describe itself here. One at a time.
class Description {
 public:
  Description();
  ~Description();
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  DescribedVerb verb;
};

/// Flags are added to app() as to any CLI::App; plain arguments are ours, because a launched program's must
/// stay untouched, and so are the messages.
class VerbParser {
 public:
  /// `usage` is the whole command, "hookline hooks describe NAME [flags]"; `example` one command that works.
  VerbParser(const std::string& usage, const std::string& summary, const std::string& example);

  CLI::App& app() { return app_; }

  /// A flag that may be given several times, each time with KEY=VALUE.
  void add_assignments(const std::string& flag, std::vector<std::string>& values, const std::string& help);

  /// --program PROG, for verbs that look at hooks without launching.
  void add_program(std::string& program);

  /// --plugin FILE, which may be given several times, for verbs that list hooks.
  void add_plugins(std::vector<std::string>& plugins);

  /// False if help was asked for, which is printed then, or a Description. Throws UsageError.
  bool parse(const std::vector<std::string>& arguments,
             PlainArguments plain_arguments = PlainArguments::may_mix);

  const std::vector<std::string>& plain() const { return plain_; }

  /// Throws UsageError unless there are between `least` and `most` plain arguments, called `name`.
  void expect_plain(const std::string& name, std::size_t least, std::size_t most) const;

 private:
  std::vector<Flag> flags() const;
  DescribedVerb described() const;

  CLI::App app_;
  std::string usage_, example_;
  std::vector<std::string> repeated_;
  std::vector<std::string> plain_;
};

}  // namespace hookline
