#include "libexec/rendezvous/store/store_server.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/route.h"
#include "base/text/address_text.h"
#include "libexec/rendezvous/lines/take_text.h"

namespace hookline {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // of an answer, on its way to another node
const char* const kAllAddresses = "";

}  // namespace

StoreServer::StoreServer(LauncherSocket& launcher, std::string address, Others others)
    : launcher_(launcher), address_(std::move(address)), others_(std::move(others)) {}

std::vector<std::string> StoreServer::places() const {
  if (is_in_digits(address_)) return {address_};
  // If nodes reached this host by an address that it does not have, the network translates it to one of this
  // host's, and which one is unknown here.
  if (!std::all_of(reached_at_.begin(), reached_at_.end(), is_here)) return {kAllAddresses};
  if (!reached_at_.empty()) return {reached_at_.begin(), reached_at_.end()};
  std::vector<std::string> own;
  std::string ignored;
  for (const std::string& each : addresses_of(address_, ignored))
    if (is_in_digits(each) && is_here(each)) own.push_back(each);
  return own.empty() ? std::vector<std::string>{kAllAddresses} : own;
}

std::string StoreServer::address_for_ranks() const {
  if (is_in_digits(address_)) return address_;
  // An address that is no loopback address, if there is one: other hosts don't reach a loopback address.
  const std::string* own = nullptr;
  for (const std::string& each : reached_at_)
    if (is_here(each) && (!own || is_loopback(*own))) own = &each;
  return own ? *own : address_;
}

void StoreServer::open(const std::string& text) {
  std::string_view how = text;
  const int round = take_number<int>(how).value_or(0);
  store_.begin_round(round);
  const std::string name = ranks_.listen_here();
  const int port = how == " tcp" ? ranks_.listen_at(places(), others_.is_member) : 0;
  launcher_.tell("store",
                 std::to_string(round) + " " + name + " " + std::to_string(port) + " " + address_for_ranks());
}

void StoreServer::serve_ranks() {
  for (const RankConnections::Event& event : ranks_.events()) {
    const StorePeer peer{"", event.connection};
    if (event.kind == RankConnections::Event::Kind::opened)
      store_.open(peer, store_.round());
    else if (event.kind == RankConnections::Event::Kind::data)
      answer(store_.take(peer, event.bytes));
    else
      store_.end(peer);
  }
  if (const auto stranger = ranks_.take_stranger())
    launcher_.tell("warning",
                   "a connection from " + *stranger +
                       " to the ranks' store was refused, as all others like it will be: no node of this run "
                       "has joined from there");
}

void StoreServer::take(const std::string& node, const StoreWord& word) {
  const StorePeer peer{node, word.connection};
  if (word.kind == StoreWord::Kind::reached)
    reached_at_.insert(word.bytes);
  else if (word.kind == StoreWord::Kind::data)
    answer(store_.take(peer, word.bytes));
  else if (word.kind == StoreWord::Kind::end)
    store_.end(peer);
  else if (!store_.open(peer, word.round))
    answer({{peer, "", true}});
}

void StoreServer::answer(const std::vector<StoreHub::Answer>& answers) {
  for (const auto& [to, bytes, is_last] : answers) {
    if (to.node.empty()) {
      ranks_.send(to.connection, bytes);
      if (is_last) ranks_.end(to.connection);
      continue;
    }
    // In pieces, since a frame has a longest size.
    for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes)
      others_.send(to.node, {StoreWord::Kind::data, to.connection, bytes.substr(at, kPieceBytes)});
    if (is_last) others_.send(to.node, {StoreWord::Kind::end, to.connection});
  }
  if (const std::string problem = store_.take_problem(); !problem.empty())
    launcher_.tell("warning",
                   "a rank's connection to the store was closed, because of what came over it: " + problem);
}

}  // namespace hookline
