#include "libexec/rendezvous/store_node.h"

#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "base/bytes_text.h"
#include "launcher/rendezvous/messages.h"
#include "libexec/rendezvous/unreachable.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTurnEvery{50};
constexpr milliseconds kHeartbeatEvery{500};
constexpr milliseconds kTimeToHear{3000};       // at the end: for the other nodes to read all lines
const char* const kIsThere = "hookline/nodes";  // the coordinator's store, not any other

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// The text of a message for the launcher. If it is too long for a message, says only how long it is.
std::string message_in(const std::vector<std::uint8_t>& bytes) {
  return bytes.size() <= kLongestMessageBytes ? text_of(bytes) : "one of " + binary_bytes_text(bytes.size());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

StoreNode::StoreNode(const StoreArguments& place, LauncherSocket& launcher, SharedLines& shared)
    : place_(place), launcher_(launcher), shared_(shared), lives_(place.node, place.node_timeout) {}

void StoreNode::run() {
  if (open()) {
    shared_.answered = Clock::now();
    shared_.joined = true;
    try {
      while (turn()) std::this_thread::sleep_for(kTurnEvery);
    } catch (const std::exception& error) {
      launcher_.tell("gone", first_line(error.what()));
    }
  }
  shared_.ended = true;
}

c10::intrusive_ptr<c10d::TCPStore> StoreNode::connect(bool serve) const {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place_.port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = place_.join_timeout;
  return c10::make_intrusive<c10d::TCPStore>(place_.address, options);
}

c10::intrusive_ptr<c10d::TCPStore> StoreNode::find() {
  if (place_.serves) {
    try {
      auto store = connect(/*serve=*/true);
      serves_ = true;
      return store;
    } catch (const std::exception& error) {
      const std::string why = first_line(error.what());
      const bool taken = why.find("EADDRINUSE") != std::string::npos;
      if (!taken || !place_.may_join) {
        launcher_.tell("unusable", taken ? "the port " + std::to_string(place_.port) +
                                               " is taken on this host, by another program or by a "
                                               "node that has the same node_rank: set "
                                               "[rendezvous] main_port to a free one, on every node"
                                         : "the nodes' store can't be served at " +
                                               place_.address_and_port() + ": " + why);
        return {};
      }
      taken_here_ = true;
    }
  }
  try {
    auto store = connect(/*serve=*/false);
    store->wait({kIsThere}, place_.join_timeout);
    return store;
  } catch (const std::exception& error) {
    launcher_.tell("unreachable", why_unreachable(place_, taken_here_, first_line(error.what())));
    return {};
  }
}

bool StoreNode::open() {
  auto store = find();
  if (!store) return false;
  try {
    if (serves_) store->set(kIsThere, bytes_of("yes"));
  } catch (const std::exception& error) {
    launcher_.tell("gone", first_line(error.what()));
    return false;
  }
  store_ = c10::make_intrusive<c10d::PrefixStore>("hookline/nodes", std::move(store));
  launcher_.tell("serves", serves_ ? "yes" : "no");
  return true;
}

bool StoreNode::turn() {
  const auto now = Clock::now();
  std::vector<std::string> up, down;
  bool closing = false;
  {
    const std::lock_guard lock(shared_.mutex);
    up.swap(shared_.up);
    down.swap(shared_.down);
    closing = shared_.closing;
  }
  for (const std::string& line : up)
    store_->set("up/" + std::to_string(store_->add("ups", 1)), bytes_of(line));
  for (const std::string& line : down) {
    store_->set("down/" + std::to_string(++downs_told_), bytes_of(line));
    store_->add("downs", 1);
  }
  if (now - last_heartbeat_ >= kHeartbeatEvery) {
    last_heartbeat_ = now;
    store_->set("life/" + place_.node, bytes_of(std::to_string(++heartbeats_)));
  }
  read_downs();
  if (serves_) read_ups(now);
  if (serves_) look_for_life(now);
  shared_.answered = Clock::now();
  if (!closing) return true;
  if (!serves_) return false;
  if (!closing_since_) closing_since_ = now;
  return now - *closing_since_ < kTimeToHear && !all_have_heard();
}

void StoreNode::read_downs() {
  const std::int64_t there = store_->add("downs", 0);
  if (downs_read_ == there) return;
  while (downs_read_ < there)
    launcher_.tell("down", message_in(store_->get("down/" + std::to_string(++downs_read_))));
  store_->set("heard/" + place_.node, bytes_of(std::to_string(downs_read_)));
}

void StoreNode::read_ups(Clock::time_point now) {
  const std::int64_t there = store_->add("ups", 0);
  while (ups_read_ < there) {
    if (!store_->check({"up/" + std::to_string(ups_read_ + 1)})) {
      // The line is counted but not stored yet. If its sender died in between, it never comes, and is
      // skipped.
      if (hole_ != ups_read_ + 1) hole_since_ = now;
      hole_ = ups_read_ + 1;
      if (now - hole_since_ <= place_.node_timeout) return;
      ++ups_read_;
      continue;
    }
    const std::string line = message_in(store_->get("up/" + std::to_string(++ups_read_)));
    lives_.heard(line, now);
    launcher_.tell("up", line);
  }
}

void StoreNode::look_for_life(Clock::time_point now) {
  for (const std::string& node : lives_.watched()) lives_.read(node, text_at("life/" + node), now);
  for (const std::string& node : lives_.take_lost(now)) launcher_.tell("lost", node);
}

bool StoreNode::all_have_heard() {
  for (const std::string& node : lives_.watched())
    if (text_at("heard/" + node) != std::to_string(downs_told_)) return false;
  return true;
}

std::string StoreNode::text_at(const std::string& key) {
  return store_->check({key}) ? text_of(store_->get(key)) : "";
}

}  // namespace hookline
