#include "config/schema/node_count.h"

#include <charconv>

namespace hookline {
namespace {

std::optional<int> count_of(std::string_view text) {
  int count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (problem != std::errc() || end != text.data() + text.size() || count < 1 || count > NodeCount::kMost)
    return std::nullopt;
  return count;
}

}  // namespace

std::optional<NodeCount> NodeCount::parse(std::string_view text) {
  const auto colon = text.find(':');
  const auto least = count_of(text.substr(0, colon));
  const auto most = colon == text.npos ? least : count_of(text.substr(colon + 1));
  if (!least || !most || *least > *most) return std::nullopt;
  return NodeCount{*least, *most};
}

}  // namespace hookline
