#include "launcher/rendezvous/slowest_node.h"

#include <algorithm>
#include <vector>

namespace hookline {

std::optional<SlowestNode> slowest_node(const std::map<std::string, NodePace>& paces) {
  if (paces.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(
      paces.begin(), paces.end(), [](const auto& a, const auto& b) { return a.second.busy < b.second.busy; });
  std::vector<double> others;
  for (auto pace = paces.begin(); pace != paces.end(); ++pace)
    if (pace != slowest) others.push_back(pace->second.busy);
  const auto median = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), median, others.end());
  const double share = slowest->second.busy - *median;
  if (share < kNamedFrom) return std::nullopt;
  return SlowestNode{slowest->first, slowest->second.rank, share};
}

}  // namespace hookline
