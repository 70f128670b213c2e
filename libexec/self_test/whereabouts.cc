#include "libexec/self_test/whereabouts.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/text/list_text.h"
#include "parallel/world/world.h"

namespace hookline {

Whereabouts::Whereabouts(const World& world)
    : told_(world.store().clone()), asked_(world.store().clone()), rank_(world.rank()), size_(world.size()) {}

std::string Whereabouts::key(int rank) const { return "self_test/at/" + std::to_string(rank); }

void Whereabouts::step(const std::string& name) {
  try {
    told_->set(key(rank_), std::to_string(++steps_) + " " + name);
  } catch (const c10::Error&) {
    // The store is gone, with rank 0 or the launcher that held it. The step itself will report that better.
  }
}

std::string Whereabouts::behind() const {
  std::vector<std::pair<int, std::string>> at;
  try {
    for (int rank = 0; rank < size_; ++rank) {
      if (!asked_->check({key(rank)})) {
        at.emplace_back(0, "join");
        continue;
      }
      const std::string told = asked_->get_to_str(key(rank));
      at.emplace_back(std::stoi(told), told.substr(told.find(' ') + 1));
    }
  } catch (const std::exception&) {
    return "";  // with the store gone, nobody knows
  }
  const int farthest = std::max_element(at.begin(), at.end())->first;
  std::vector<std::string> behind;
  for (int rank = 0; rank < size_; ++rank) {
    const auto& [steps, name] = at[static_cast<std::size_t>(rank)];
    if (steps < farthest) behind.push_back("rank " + std::to_string(rank) + " is still at " + name);
  }
  return list_text(behind);
}

}  // namespace hookline
