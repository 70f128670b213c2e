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
  if (const auto plus = text.find('+'); plus != text.npos) {
    const auto nodes = count_of(text.substr(0, plus)), spares = count_of(text.substr(plus + 1));
    if (!nodes || !spares || *nodes + *spares > kMost) return std::nullopt;
    return NodeCount{*nodes, *nodes, *spares};
  }
  const auto colon = text.find(':');
  const auto least = count_of(text.substr(0, colon));
  const auto most = colon == text.npos ? least : count_of(text.substr(colon + 1));
  if (!least || !most || *least > *most) return std::nullopt;
  return NodeCount{*least, *most};
}

}  // namespace hookline
