// Takes a command line apart before any parser sees it: flags here, plain arguments there.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace hookline {

/// A command line that can't be used; what() says why and what to type instead.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Flag {
  std::string name;         // "--config"
  bool takes_value = true;  // as "--config FILE" or "--config=FILE"
  bool may_repeat = false;
};

enum class PlainArguments {
  may_mix,    // `config show --json run.toml` and `config show run.toml --json` are the same
  end_flags,  // from the first one on, everything belongs to the program that is launched
};

struct SplitArguments {
  std::vector<std::string> flags;  // each with its value: "--config=run.toml", "--help"
  std::vector<std::string> plain;
};

/// `--` ends the flags too, and is dropped. Throws UsageError for an unknown flag (naming the nearest), a
/// missing or unwanted value, a flag given twice.
SplitArguments split_arguments(const std::vector<std::string>& arguments, const std::vector<Flag>& known,
                               PlainArguments plain_arguments);

struct Assignment {
  std::string key, value;
};

/// "KEY=VALUE" as given to `flag`. Throws UsageError, which shows `example`.
Assignment split_assignment(const std::string& text, const std::string& flag, const std::string& example);

/// The contents of a file that the command line names, and that a person may have written. Throws UsageError
/// if it can't be read.
std::string text_of_file(const std::string& file, std::uint64_t most_bytes = 16 << 20);

/// "; did you mean 'X'?", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace hookline
