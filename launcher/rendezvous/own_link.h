// The link of a run with a single node, which is its own coordinator.
#pragma once

#include <deque>
#include <utility>

#include "launcher/rendezvous/node_link.h"

namespace hookline {

/// Hands each line back to the node that sent it.
class OwnLink : public NodeLink {
 public:
  OwnLink() : lines_{{LinkWord::Kind::serves, "yes"}} {}

  int descriptor() const override { return -1; }
  void send_up(const std::string& line) override { lines_.push_back({LinkWord::Kind::up, line}); }
  void send_down(const std::string& line) override { lines_.push_back({LinkWord::Kind::down, line}); }
  std::optional<LinkWord> next() override {
    if (lines_.empty()) return std::nullopt;
    LinkWord line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  void finish(std::chrono::milliseconds) override {}

 private:
  std::deque<LinkWord> lines_;
};

}  // namespace hookline
