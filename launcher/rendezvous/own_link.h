// The link of a run that needs no node_relay: its only node is its own coordinator, and its ranks do not use
// the store that node_relay holds.
#pragma once

#include <utility>

#include "launcher/rendezvous/node_link.h"

namespace hookline {

/// Leads to no other node.
class OwnLink : public NodeLink {
 public:
  int descriptor() const override { return -1; }
  void send_up(const std::string&) override {}
  void send_down(const std::string&, const std::string&) override {}
  void meet(const MeetingPlace&) override {}
  void open_store(int, bool) override {}
  std::optional<LinkWord> next() override {
    if (std::exchange(has_begun_, true)) return std::nullopt;
    return LinkWord{LinkWord::Kind::serves, "yes"};
  }
  void finish(std::chrono::milliseconds) override {}

 private:
  bool has_begun_ = false;
};

}  // namespace hookline
