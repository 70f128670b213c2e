#include "libexec/rendezvous/node_lives.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"

namespace hookline {

bool NodeLives::heard(const std::string& node, Time now) {
  Patience& patience = patience_.try_emplace(node, timeout_).first->second;
  if (lost_.erase(node) > 0) {
    patience.begin_anew();
    nodes_.join(node, now);
    return true;
  }
  if (!nodes_.is_present(node)) return false;
  patience.hear(now);
  nodes_.hear(node, std::to_string(++frames_), now);
  return false;
}

void NodeLives::took(const std::string& node, const std::string& line, Time now) {
  const auto json = json_or_discarded<nlohmann::json>(line);
  const bool has_kind = json.is_object() && json.contains("is") && json["is"].is_string();
  if (has_kind && json["is"] == "leave")
    nodes_.lose(node);
  else if (has_kind && json["is"] == "hello")
    nodes_.join(node, now);
  else
    nodes_.expect(node, now);
}

std::vector<std::string> NodeLives::take_lost(Time now) {
  // This process was stopped, or the machine was: what has arrived meanwhile is not read yet.
  if (looked_ != Time() && now - looked_ > timeout_ / 2) {
    nodes_.begin_anew(now);
    for (auto& [node, patience] : patience_) patience.begin_anew();
  }
  looked_ = now;
  std::vector<std::string> lost;
  for (const auto& [node, silence] : nodes_.late(timeout_, now)) {
    if (silence <= patience_.try_emplace(node, timeout_).first->second.limit()) continue;
    nodes_.lose(node);
    lost_.insert(node);
    lost.push_back(node);
  }
  return lost;
}

}  // namespace hookline
