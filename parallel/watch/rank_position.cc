#include "parallel/watch/rank_position.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text/list_text.h"

namespace hookline {
namespace {

using RanksByCall =
    std::vector<std::pair<std::string, std::vector<int>>>;  // in the order of their first ranks

void add_to(RanksByCall& calls, const std::string& what, int rank) {
  auto known = std::find_if(calls.begin(), calls.end(), [&](const auto& each) { return each.first == what; });
  if (known == calls.end()) known = calls.insert(known, {what, {}});
  known->second.push_back(rank);
}

/// Newlines separate the parts of a position.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

bool RankPosition::has_reached(const Wait& wait) const {
  const auto found = started.find(wait.sequence);
  return found != started.end() && found->second > wait.number;
}

std::string pack(const RankPosition& position) {
  std::ostringstream text;
  text << position.started.size();
  for (const auto& [sequence, count] : position.started) text << ' ' << sequence << ' ' << count;
  if (position.waits)
    text << ' ' << position.waits->sequence << ' ' << position.waits->number << ' '
         << in_one_line(position.waits->what);
  if (position.pending)
    text << '\n' << position.pending->number << ' ' << in_one_line(position.pending->what);
  return text.str();
}

RankPosition unpack_position(const std::string& both) {
  RankPosition position;
  const std::size_t end = both.find('\n');
  const std::string text = both.substr(0, end);
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
  if (end != both.npos) {
    std::istringstream pending(both.substr(end + 1));
    RankPosition::Pending read;
    if (pending >> read.number && pending.get() == ' ' && std::getline(pending, read.what))
      position.pending = std::move(read);
  }
  return position;
}

std::optional<std::string> find_deadlock(const std::vector<RankPosition>& positions) {
  std::vector<std::size_t> waiting;
  for (std::size_t rank = 0; rank < positions.size(); ++rank)
    if (positions[rank].waits) waiting.push_back(rank);
  // A rank that waits for none of the other remaining ranks may continue.
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
  RanksByCall by_call;  // by sequence, too: several models may be in the same call
  bool is_of_sharded_model = false;
  for (const std::size_t rank : waiting) {
    const RankPosition::Wait& wait = *positions[rank].waits;
    add_to(by_call, wait.sequence + '\n' + wait.what, static_cast<int>(rank));
    is_of_sharded_model = is_of_sharded_model || wait.sequence.starts_with(kShardedSequences);
  }
  std::string text = "the ranks wait for each other, each in a call that another has not reached: ";
  for (std::size_t i = 0; i < by_call.size(); ++i)
    text += (i ? "; " : "") + rank_names(by_call[i].second) + " in " +
            by_call[i].first.substr(by_call[i].first.find('\n') + 1);
  text += ". Every rank must make the same calls in the same order";
  return is_of_sharded_model
             ? text + ": every rank must run the forward of a sharded model, in an evaluation too"
             : text;
}

std::string long_wait_text(const std::vector<RankPosition>& positions, const std::vector<bool>& waits_long,
                           const std::string& waited) {
  RanksByCall long_waits, other_waits;
  std::vector<int> outside;
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {
    if (positions[rank].pending)
      add_to(waits_long[rank] ? long_waits : other_waits, positions[rank].pending->what,
             static_cast<int>(rank));
    else
      outside.push_back(static_cast<int>(rank));
  }
  std::string text;
  const auto add = [&](const std::vector<int>& ranks, const char* one, const char* more,
                       const std::string& where) {
    text += (text.empty() ? "" : "; ") + rank_names(ranks) + (ranks.size() == 1 ? one : more) + where;
  };
  for (const auto& [what, ranks] : long_waits)
    add(ranks, " has waited ", " have waited ", waited + " in " + what);
  for (const auto& [what, ranks] : other_waits) add(ranks, " waits in ", " wait in ", what);
  if (!outside.empty()) add(outside, " is in no collective", " are in no collective", "");
  return text;
}

}  // namespace hookline
