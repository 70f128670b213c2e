#include "libexec/rendezvous/node_lives.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"

namespace hookline {

void NodeLives::heard(const std::string& line, Time now) {
  const auto json = json_or_discarded<nlohmann::json>(line);
  const auto word = [&json](const char* key) -> std::string {
    const bool is_there = json.is_object() && json.contains(key) && json[key].is_string();
    return is_there ? json[key].get<std::string>() : "";
  };
  const std::string from = word("from"), is = word("is");
  if (from.empty() || from == own_) return;
  nodes_.expect(from, now);
  if (is == "leave") nodes_.lose(from);
  if (is == "hello") nodes_.join(from, now);
}

std::vector<std::string> NodeLives::take_lost(Time now) {
  std::vector<std::string> lost = nodes_.late(timeout_, now);
  for (const std::string& node : lost) nodes_.lose(node);
  return lost;
}

}  // namespace hookline
