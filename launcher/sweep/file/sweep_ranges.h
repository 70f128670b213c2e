// A range of a sweep file: { from = 1e-4, to = 1e-1, count = 4, log = true }.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/toml/toml_tree.h"

namespace hookline {

struct SweepRange {
  double from = 0, to = 0;
  std::optional<double> step, count;
  bool log = false;    // evenly spaced in the logarithm
  bool whole = false;  // `from`, `to` and `step` are integers, and so are its values
};

/// Takes what is wrong, where in the file, and what to do.
using TellProblem = std::function<void(Span at, const std::string& message, const std::string& note)>;

/// The range in `node`, the value of `key`. With `to_draw`, a random search draws from it: it then has
/// neither step nor count. None, after `tell`, if there is something wrong with it.
std::optional<SweepRange> read_range(const std::string& key, const TomlNode& node, bool to_draw,
                                     const TellProblem& tell);

/// The range's values in their order, as one types them on a command line; none, after `tell`, if there is
/// something wrong with it.
std::vector<std::string> values_of_range(const std::string& key, const TomlNode& node,
                                         const TellProblem& tell);

}  // namespace hookline
