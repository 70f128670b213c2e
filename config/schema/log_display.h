// Which ranks' output is shown, and with what prefix.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hookline {

/// Ranks by number: "all", "none", "0", "0,2-5".
class RankSet {
 public:
  /// Nothing if `text` is none of these.
  static std::optional<RankSet> parse(std::string_view text);
  bool holds(int rank) const;

 private:
  std::vector<std::pair<int, int>> ranges_;  // first and last
};

/// Values for the names that a prefix may hold, as "${rank}" does.
using PrefixValues = std::vector<std::pair<std::string_view, std::string>>;

/// "rank", "local_rank", "role_name", "host".
std::vector<std::string_view> prefix_names();

/// `text` with each ${name} replaced; nothing if a name is unknown or a "${" is not closed. Control
/// characters are escaped as printable() does, except in colour sequences such as ESC [ 1 ; 32 m.
std::optional<std::string> expand_prefix(std::string_view text, const PrefixValues& values);

}  // namespace hookline
