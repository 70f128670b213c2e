#include "base/text/list_text.h"

namespace hookline {

std::string list_text(const std::vector<std::string>& items, std::size_t most) {
  const std::size_t listed = items.size() > most + 1 ? most : items.size();
  std::string text;
  for (std::size_t i = 0; i < listed; ++i)
    text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  return listed < items.size() ? text + " and " + std::to_string(items.size() - listed) + " more" : text;
}

std::string rank_names(const std::vector<int>& ranks) {
  std::vector<std::string> numbers;
  numbers.reserve(ranks.size());
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_text(numbers);
}

}  // namespace hookline
