#include "config/schema/log_display.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text/printable.h"

namespace hookline {
namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// The length of a colour escape sequence at the start of `text`; 0 if there is none.
std::size_t colour_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;:", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

std::string printable_with_colours(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = colour_length(text);
    const std::size_t end = length > 0 ? length : std::min(text.find('\x1b', 1), text.size());
    result += length > 0 ? std::string(text.substr(0, end)) : printable(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace

std::optional<RankSet> RankSet::parse(std::string_view text) {
  RankSet set;
  if (text == "none") return set;
  if (text == "all") {
    set.ranges_ = {{0, std::numeric_limits<int>::max()}};
    return set;
  }
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const std::size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == part.npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    set.ranges_.emplace_back(*first, *last);
    if (part.size() == text.size()) return set;
    text.remove_prefix(part.size() + 1);
  }
}

bool RankSet::holds(int rank) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [rank](const auto& range) { return range.first <= rank && rank <= range.second; });
}

std::vector<std::string_view> prefix_names() { return {"rank", "local_rank", "role_name", "host"}; }

std::optional<std::string> expand_prefix(std::string_view text, const PrefixValues& values) {
  std::string result;
  while (true) {
    const std::size_t at = text.find("${");
    result += text.substr(0, at);
    if (at == text.npos) return printable_with_colours(result);
    const std::size_t end = text.find('}', at);
    if (end == text.npos) return std::nullopt;
    const std::string_view name = text.substr(at + 2, end - at - 2);
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& each) { return each.first == name; });
    if (value == values.end()) return std::nullopt;
    result += value->second;
    text.remove_prefix(end + 1);
  }
}

}  // namespace hookline
