#include "libexec/rendezvous/store/store_hub.h"

#include <utility>

namespace hookline {

void StoreHub::begin_round(int round) {
  round_ = round;
  values_ = {};
  clients_.clear();
  peers_.clear();
}

bool StoreHub::open(const StorePeer& peer, int round) {
  if (round != round_) return false;
  end(peer);
  clients_[peer] = {++connected_};
  peers_[connected_] = peer;
  return true;
}

std::vector<StoreHub::Answer> StoreHub::take(const StorePeer& peer, std::string_view bytes) {
  const auto client = clients_.find(peer);
  if (client == clients_.end()) return {{peer, "", true}};
  std::vector<Answer> answers;
  client->second.requests.add(bytes);
  try {
    while (const auto request = client->second.requests.next()) {
      for (KeyValues::Answer& answer : values_.take(client->second.number, *request))
        answers.push_back({peers_.at(answer.to), std::move(answer.bytes)});
    }
  } catch (const StoreRequestError& error) {
    problem_ = error.what();
    end(peer);
    answers.push_back({peer, "", true});
  }
  return answers;
}

void StoreHub::end(const StorePeer& peer) {
  const auto client = clients_.extract(peer);
  if (client.empty()) return;
  values_.forget(client.mapped().number);
  peers_.erase(client.mapped().number);
  // A script that destroys its process group and makes another one expects an empty store, as rank 0 would
  // serve.
  if (clients_.empty()) values_ = {};
}

void StoreHub::end_all_of(const std::string& node) {
  std::vector<StorePeer> ended;
  for (auto client = clients_.lower_bound({node, 0}); client != clients_.end() && client->first.node == node;
       ++client)
    ended.push_back(client->first);
  for (const StorePeer& peer : ended) end(peer);
}

}  // namespace hookline
