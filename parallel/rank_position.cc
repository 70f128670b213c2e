#include "parallel/rank_position.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace hookline {

bool RankPosition::has_reached(const Wait& wait) const {
  const auto found = started.find(wait.sequence);
  return found != started.end() && found->second > wait.number;
}

std::string pack(const RankPosition& position) {
  std::ostringstream text;
  text << position.started.size();
  for (const auto& [sequence, count] : position.started) text << ' ' << sequence << ' ' << count;
  if (position.waits)
    text << ' ' << position.waits->sequence << ' ' << position.waits->number << ' ' << position.waits->what;
  return text.str();
}

RankPosition unpack_position(const std::string& text) {
  RankPosition position;
  std::istringstream words(text);
  std::size_t sequences = 0;
  words >> sequences;
  std::string sequence;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < sequences && words >> sequence >> number; ++i)
    position.started[sequence] = number;
  if (words >> sequence >> number && words.get() == ' ') {
    const auto begin = static_cast<std::size_t>(words.tellg());
    position.waits = RankPosition::Wait{sequence, number, text.substr(begin)};
  }
  return position;
}

std::string names_of(const std::vector<int>& ranks) {
  constexpr std::size_t kMostNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > kMostNamed ? text + " and " + std::to_string(ranks.size() - kMostNamed) + " more"
                                   : text;
}

std::optional<std::string> find_deadlock(const std::vector<RankPosition>& positions) {
  std::vector<std::size_t> waiting;
  for (std::size_t rank = 0; rank < positions.size(); ++rank)
    if (positions[rank].waits) waiting.push_back(rank);
  // Whoever needs none of the others that are left may go on.
  const auto needs_none_of = [&](const std::vector<std::size_t>& others, std::size_t rank) {
    return std::all_of(others.begin(), others.end(), [&](std::size_t other) {
      return other == rank || positions[other].has_reached(*positions[rank].waits);
    });
  };
  for (std::size_t before = waiting.size() + 1; waiting.size() < before;) {
    before = waiting.size();
    std::erase_if(waiting, [&, left = waiting](std::size_t rank) { return needs_none_of(left, rank); });
  }
  if (waiting.empty()) return std::nullopt;
  std::vector<std::pair<std::string, std::vector<int>>> by_call;
  for (const std::size_t rank : waiting) {
    const std::string& what = positions[rank].waits->what;
    auto known =
        std::find_if(by_call.begin(), by_call.end(), [&](const auto& each) { return each.first == what; });
    if (known == by_call.end()) known = by_call.insert(known, {what, {}});
    known->second.push_back(static_cast<int>(rank));
  }
  std::string text = "the ranks wait for each other, each in a call that another has not reached: ";
  for (std::size_t i = 0; i < by_call.size(); ++i)
    text += (i ? "; " : "") + names_of(by_call[i].second) + " in " + by_call[i].first;
  return text +
         ". Every rank must make the same calls in the same order: the forward of a sharded model is every "
         "rank's, in an evaluation too";
}

std::string who_is_missing(const std::vector<RankPosition>& positions, int rank) {
  const auto& wait = positions[static_cast<std::size_t>(rank)].waits;
  if (!wait) return "";
  std::vector<int> missing;
  for (std::size_t other = 0; other < positions.size(); ++other)
    if (static_cast<int>(other) != rank && !positions[other].has_reached(*wait))
      missing.push_back(static_cast<int>(other));
  if (missing.empty()) return "";
  return "; " + names_of(missing) + (missing.size() == 1 ? " has" : " have") + " not reached it";
}

}  // namespace hookline
