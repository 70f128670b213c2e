// The flags of one verb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cli/arguments.h"

namespace CLI {
class App;
}

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

/// While it lives, running a verb only stores its description here. At most one may exist at a time.
class Description {
 public:
  Description();
  ~Description();
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  DescribedVerb verb;
};

/// What a number may be, ends included.
template <class Number>
struct Limits {
  Number least, most;
};

/// Parses flags with CLI11. Plain arguments are split off beforehand, since those of a launched program must
/// stay untouched; error messages are hookline's own.
class VerbParser {
 public:
  /// `usage` is the whole command, "hookline hooks describe NAME [flags]"; `example` one command that works.
  VerbParser(const std::string& usage, const std::string& summary, const std::string& example);
  ~VerbParser();
  VerbParser(const VerbParser&) = delete;
  VerbParser& operator=(const VerbParser&) = delete;

  /// A flag that takes no value.
  void add_flag(const std::string& flag, bool& given, const std::string& help);

  /// A flag that takes a value, which help calls `value_name`. Without the flag `value` stays as it is.
  void add_text(const std::string& flag, std::string& value, const std::string& value_name,
                const std::string& help);

  /// A flag that may be given several times, each time with a value.
  void add_texts(const std::string& flag, std::vector<std::string>& values, const std::string& value_name,
                 const std::string& help);

  /// A flag that takes a number. A whole one may be given as 125M or 1.5B: K is 10³, M 10⁶, B 10⁹.
  void add_number(const std::string& flag, std::int64_t& value, const std::string& value_name,
                  const std::string& help, Limits<std::int64_t> limits);
  void add_number(const std::string& flag, double& value, const std::string& value_name,
                  const std::string& help, Limits<double> limits);

  /// --program PROG, for verbs that look at hooks without launching.
  void add_program(std::string& program);

  /// --plugin FILE, which may be given several times, for verbs that list hooks.
  void add_plugins(std::vector<std::string>& plugins);

  /// False if help was asked for, which it then prints, or if a Description is being made. Throws UsageError.
  bool parse(const std::vector<std::string>& arguments,
             PlainArguments plain_arguments = PlainArguments::may_mix);

  const std::vector<std::string>& plain() const { return plain_; }

  /// Throws UsageError unless there are between `least` and `most` plain arguments, called `name`.
  void expect_plain(const std::string& name, std::size_t least, std::size_t most) const;

 private:
  std::vector<Flag> flags() const;
  DescribedVerb described() const;

  std::unique_ptr<CLI::App> app_;
  std::string usage_, example_;
  std::vector<std::string> repeated_;
  std::vector<std::string> plain_;
};

}  // namespace hookline
